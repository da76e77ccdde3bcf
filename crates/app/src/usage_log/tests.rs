//! The usage log as its readers and the data plane see it.

mod stuck;

use std::io::{self, Write};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, UNIX_EPOCH};

use sluicegate_core::Micros;
use sluicegate_proxy::usage::{Outcome, UsageLine, UsageSink, UsageSource};
use sluicegate_wire::Usage;

use super::writer::Output;
use super::*;

fn full_line() -> UsageLine<'static> {
    UsageLine {
        request_id: "req-1",
        time: UNIX_EPOCH + Duration::from_millis(1_770_091_506_789),
        model: Some("qwen3\"\n"),
        route: Some("qwen3"),
        upstream_model: Some("Qwen/Qwen3-32B"),
        pool: Some("big"),
        replica: Some("http://10.0.0.11:8000"),
        endpoint: Some("/v1/chat/completions"),
        stream: true,
        status: Some(200),
        outcome: Outcome::Ok,
        error_type: None,
        reason: Some("affinity_session"),
        affinity: Some("session"),
        spilled: false,
        attempts: 1,
        key: Some("team-a"),
        project: Some("search \"1\""),
        queued: Some(Duration::from_micros(12_345)),
        cost: Some(Micros(4_500)),
        connect: Some(Duration::ZERO),
        ttft: Some(Duration::from_micros(182_417)),
        total: Duration::from_micros(1_520_004),
        bytes_in: 1834,
        bytes_out: 20_511,
        usage: Some(Usage {
            prompt_tokens: 412,
            cached_tokens: Some(400),
            completion_tokens: 80,
            reasoning_tokens: Some(7),
        }),
        usage_source: UsageSource::Engine,
        finish_reason: Some("stop"),
        events: Some(82),
    }
}

fn bare_line() -> UsageLine<'static> {
    UsageLine {
        request_id: "",
        time: UNIX_EPOCH,
        model: None,
        route: None,
        upstream_model: None,
        pool: None,
        replica: None,
        endpoint: None,
        stream: false,
        status: None,
        outcome: Outcome::ClientGone,
        error_type: Some("client_gone"),
        reason: None,
        affinity: None,
        spilled: true,
        attempts: 0,
        key: None,
        project: None,
        queued: None,
        cost: None,
        connect: None,
        ttft: None,
        total: Duration::from_nanos(999),
        bytes_in: 0,
        bytes_out: 0,
        usage: None,
        usage_source: UsageSource::None,
        finish_reason: None,
        events: None,
    }
}

fn json(line: &UsageLine<'_>) -> String {
    let mut out = Vec::new();
    line::append_line(&mut out, line, "gw-1");
    String::from_utf8(out).unwrap()
}

const FULL_GOLDEN: &str = concat!(
    r#"{"request_id":"req-1","time":"2026-02-03T04:05:06.789Z","key":"team-a","project":"search \"1\"","#,
    r#""model":"qwen3\"\n","route":"qwen3","target":"big/Qwen/Qwen3-32B","upstream_model":"Qwen/Qwen3-32B","#,
    r#""pool":"big","replica":"http://10.0.0.11:8000","endpoint":"/v1/chat/completions","stream":true,"#,
    r#""status":200,"outcome":"ok","error_type":null,"reason":"affinity_session","affinity":"session","#,
    r#""spilled":false,"attempts":1,"queue_ms":12.345,"connect_ms":0.000,"ttft_ms":182.417,"total_ms":1520.004,"#,
    r#""bytes_in":1834,"bytes_out":20511,"prompt_tokens":412,"cached_tokens":400,"completion_tokens":80,"#,
    r#""reasoning_tokens":7,"usage_source":"engine","finish_reason":"stop","events":82,"cost":0.0045,"#,
    r#""gateway":"gw-1"}"#,
    "\n"
);

const BARE_GOLDEN: &str = concat!(
    r#"{"request_id":"","time":"1970-01-01T00:00:00.000Z","key":null,"project":null,"model":null,"route":null,"#,
    r#""target":null,"upstream_model":null,"pool":null,"replica":null,"endpoint":null,"stream":false,"#,
    r#""status":null,"outcome":"client_gone","error_type":"client_gone","reason":null,"affinity":null,"#,
    r#""spilled":true,"attempts":0,"queue_ms":null,"connect_ms":null,"ttft_ms":null,"total_ms":0.000,"#,
    r#""bytes_in":0,"bytes_out":0,"prompt_tokens":null,"cached_tokens":null,"completion_tokens":null,"#,
    r#""reasoning_tokens":null,"usage_source":"none","finish_reason":null,"events":null,"cost":null,"#,
    r#""gateway":"gw-1"}"#,
    "\n"
);

#[test]
fn a_line_has_the_promised_fields_in_the_promised_order() {
    assert_eq!(json(&full_line()), FULL_GOLDEN);
    assert_eq!(json(&bare_line()), BARE_GOLDEN);
}

#[test]
fn money_is_written_exactly() {
    for (micros, number) in [
        (0, "0"),
        (1, "0.000001"),
        (10, "0.00001"),
        (4_500, "0.0045"),
        (100_000, "0.1"),
        (999_999, "0.999999"),
        (1_000_000, "1"),
        (1_050_000, "1.05"),
        (12_000_001, "12.000001"),
        (u64::MAX, "18446744073709.551615"),
    ] {
        let text = json(&UsageLine { cost: Some(Micros(micros)), ..bare_line() });
        assert!(text.contains(&format!(r#","cost":{number},"gateway""#)), "{micros}: {text}");
    }
}

#[test]
fn the_documentation_names_every_outcome() {
    let documentation = include_str!("../../../../docs/usage-line.md");
    let row = documentation.lines().find(|row| row.starts_with("| `outcome` |")).unwrap();
    let named: Vec<_> = row.split('`').skip(3).step_by(2).collect();
    assert_eq!(named, Outcome::ALL.map(Outcome::as_str));
}

#[test]
fn the_documentation_lists_the_fields_in_the_order_of_the_line() {
    let documentation = include_str!("../../../../docs/usage-line.md");
    let mut golden = FULL_GOLDEN;
    let documented = documentation.lines().filter_map(|row| row.strip_prefix("| `")?.split_once('`'));
    let mut count = 0;
    for (field, _) in documented {
        let label = format!(r#""{field}":"#);
        let at = golden.find(&label).unwrap_or_else(|| panic!("{field} is missing or out of order"));
        golden = &golden[at + label.len()..];
        count += 1;
    }
    let value: serde_json::Value = serde_json::from_str(FULL_GOLDEN).unwrap();
    assert_eq!(value.as_object().unwrap().len(), count);
}

/// What the writer wrote, readable from outside.
#[derive(Clone, Default)]
struct Shelf(Arc<Mutex<Vec<u8>>>);

impl Shelf {
    fn line_count(&self) -> usize {
        self.0.lock().unwrap().iter().filter(|&&b| b == b'\n').count()
    }
}

impl Write for Shelf {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Says when a write has begun, and lets it go on when it is told to (or its sender is gone).
struct Gate {
    begun: Sender<()>,
    go_on: Receiver<()>,
    shelf: Shelf,
}

impl Write for Gate {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let _ = self.begun.send(());
        let _ = self.go_on.recv();
        self.shelf.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn log_to(output: impl Write + Send + 'static, on_full: OnFull) -> UsageLog {
    patient_log_to(output, on_full, Duration::from_secs(3600))
}

fn patient_log_to(output: impl Write + Send + 'static, on_full: OnFull, patience: Duration) -> UsageLog {
    UsageLog::start_with(vec![Output::new(Box::new(output))], on_full, patience, "gw-1".into()).unwrap()
}

#[test]
fn closing_writes_out_every_line_of_every_thread() {
    let shelf = Shelf::default();
    let log = log_to(shelf.clone(), OnFull::Wait);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| (0..500).for_each(|_| log.write(&full_line())));
        }
    });
    log.write(&full_line());
    log.close();
    assert_eq!((shelf.line_count(), log.lost()), (2001, 0));
    for line in shelf.0.lock().unwrap().split(|&b| b == b'\n').filter(|l| !l.is_empty()) {
        assert_eq!(line, FULL_GOLDEN.trim_end().as_bytes());
    }
}

#[test]
fn a_line_after_the_close_is_counted_as_lost() {
    let shelf = Shelf::default();
    let log = log_to(shelf.clone(), OnFull::Drop);
    log.write(&full_line());
    log.close();
    log.write(&full_line());
    std::thread::scope(|scope| {
        scope.spawn(|| log.write(&full_line()));
    });
    assert_eq!((shelf.line_count(), log.lost()), (1, 2));
}

#[test]
fn a_few_lines_are_written_without_waiting_for_a_full_buffer() {
    let (begun, writes) = channel();
    let (release, go_on) = channel();
    let shelf = Shelf::default();
    let gate = Gate { begun, go_on, shelf: shelf.clone() };
    let log = log_to(gate, OnFull::Drop);
    log.write(&full_line());
    writes.recv().unwrap();
    drop(release);
    log.close();
    assert_eq!(shelf.line_count(), 1);
}

#[test]
fn a_stuck_output_costs_lines_that_are_counted_but_never_blocks() {
    let (begun, writes) = channel();
    let (release, go_on) = channel();
    let shelf = Shelf::default();
    let gate = Gate { begun, go_on, shelf: shelf.clone() };
    let log = log_to(gate, OnFull::Drop);
    log.write(&full_line());
    writes.recv().unwrap();
    let per_chunk = FULL.div_ceil(FULL_GOLDEN.len());
    let sent = per_chunk * (WAITING + 3);
    (0..sent).for_each(|_| log.write(&full_line()));
    let lost = usize::try_from(log.lost()).unwrap();
    assert_eq!(lost, per_chunk * 3, "three buffers more than may wait");
    drop(release);
    log.close();
    assert_eq!(shelf.line_count(), 1 + sent - lost);
}

/// Takes 10 bytes, then fails once, then works.
struct Faulty {
    shelf: Shelf,
    failures: u32,
}

impl Write for Faulty {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self.failures {
            2 => {
                self.failures = 1;
                self.shelf.write(bytes.get(..10).unwrap_or_default())
            }
            1 => {
                self.failures = 0;
                Err(io::ErrorKind::StorageFull.into())
            }
            _ => self.shelf.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_write_that_breaks_off_spoils_no_later_line() {
    let shelf = Shelf::default();
    let faulty = Faulty { shelf: shelf.clone(), failures: 2 };
    let log = log_to(faulty, OnFull::Drop);
    let per_chunk = FULL.div_ceil(FULL_GOLDEN.len());
    (0..per_chunk).for_each(|_| log.write(&full_line()));
    log.write(&full_line());
    log.close();
    let text = String::from_utf8(shelf.0.lock().unwrap().clone()).unwrap();
    assert!(log.lost() > 0);
    assert!(text.starts_with("{\"request_\n{"), "{}", &text[..40]);
    assert!(text.ends_with(FULL_GOLDEN));
}

#[test]
fn a_file_is_rotated_by_size_between_lines() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("usage.jsonl");
    let mut file = rotated_file::RotatedFile::open(&path, 20).unwrap();
    for number in 10..24 {
        file.write_all(format!("line {number}\n").as_bytes()).unwrap();
    }
    let read = |name: &str| std::fs::read_to_string(folder.path().join(name)).unwrap();
    assert_eq!(read("usage.jsonl"), "line 22\nline 23\n");
    assert_eq!(read("usage.jsonl.1"), "line 20\nline 21\n");
    assert_eq!(read("usage.jsonl.6"), "line 10\nline 11\n");
    let mut again = rotated_file::RotatedFile::open(&path, 20).unwrap();
    again.write_all(b"line 24\n").unwrap();
    assert_eq!(read("usage.jsonl"), "line 24\n", "the size of what was there counts");
}

#[test]
fn no_more_than_nine_rotated_files_are_kept() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("u");
    let mut file = rotated_file::RotatedFile::open(&path, 1).unwrap();
    (0..30).for_each(|_| file.write_all(b"line\n").unwrap());
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 10);
}

#[tokio::test]
async fn a_memory_sink_wakes_whoever_waits_for_lines_and_has_them_in_the_order_of_their_beginnings() {
    let sink = Arc::new(MemorySink::default());
    let waiting = tokio::spawn({
        let sink = Arc::clone(&sink);
        async move { sink.wait_for(2).await }
    });
    sink.write(&full_line());
    tokio::task::yield_now().await;
    sink.write(&bare_line());
    let lines = waiting.await.unwrap();
    assert_eq!(lines.len(), 2);
    // The bare line is of 1970.
    assert!(lines[0].contains(r#""outcome":"client_gone""#));
}
