//! Numbers and literals of JSON.

/// Bytes of numbers and literals. Which of their combinations are values is left to the engine.
static IN_SCALAR: [bool; 256] = {
    let mut table = [false; 256];
    let mut byte = 0;
    while byte < 256 {
        table[byte] = (byte as u8).is_ascii_alphanumeric() || matches!(byte as u8, b'+' | b'-' | b'.');
        byte += 1;
    }
    table
};

/// Bytes of the number or literal that `bytes` begin with.
#[inline]
pub(crate) fn scalar_len(bytes: &[u8]) -> usize {
    bytes.iter().position(|byte| !IN_SCALAR[usize::from(*byte)]).unwrap_or(bytes.len())
}
