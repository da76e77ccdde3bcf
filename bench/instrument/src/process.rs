//! CPU and memory of a process and all its children, from the kernel's own accounting.

use std::fs;

/// A process and its descendants, itself first.
pub fn tree(root: u32) -> Vec<u32> {
    let mut found = vec![root];
    let mut next = 0;
    while let Some(&pid) = found.get(next) {
        for thread in threads(pid) {
            let children = fs::read_to_string(format!("/proc/{pid}/task/{thread}/children"));
            found.extend(children.unwrap_or_default().split_whitespace().flat_map(str::parse::<u32>));
        }
        next += 1;
    }
    found
}

/// Nanoseconds that all living threads have been on a core.
pub fn cpu_ns(pids: &[u32]) -> u64 {
    let on_core = |pid: u32, thread: String| -> u64 {
        let text = fs::read_to_string(format!("/proc/{pid}/task/{thread}/schedstat")).unwrap_or_default();
        text.split_whitespace().next().and_then(|first| first.parse().ok()).unwrap_or(0)
    };
    pids.iter().flat_map(|&pid| threads(pid).map(move |thread| on_core(pid, thread))).sum()
}

/// Resident memory in KiB.
pub fn rss_kib(pids: &[u32]) -> u64 {
    let resident = |pid: &u32| -> u64 {
        let text = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        line.and_then(|rest| rest.split_whitespace().next()?.parse().ok()).unwrap_or(0)
    };
    pids.iter().map(resident).sum()
}

fn threads(pid: u32) -> impl Iterator<Item = String> {
    let folder = fs::read_dir(format!("/proc/{pid}/task"));
    folder.into_iter().flatten().flatten().map(|entry| entry.file_name().to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use super::{cpu_ns, rss_kib, tree};

    #[test]
    fn this_process_has_used_cpu_and_memory() {
        let own = tree(std::process::id());
        assert_eq!(own.first(), Some(&std::process::id()));
        assert!(cpu_ns(&own) > 0);
        assert!(rss_kib(&own) > 0);
    }
}
