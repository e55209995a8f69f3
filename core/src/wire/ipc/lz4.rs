//! How long a frame of LZ4 can become. Arrow's reader decompresses it to its end before it compares
//! the length with what was announced, so this has to be known before.

use arrow::error::ArrowError;

use super::ipc;

const MAGIC: [u8; 4] = 0x184D_2204_u32.to_le_bytes();

/// Flags of the frame.
const HAS_BLOCK_CHECKSUMS: u8 = 0x10;
const HAS_CONTENT_SIZE: u8 = 0x08;
const HAS_DICTIONARY: u8 = 0x01;

/// Marks a block that isn't compressed.
const IS_STORED: u32 = 1 << 31;

/// Checks that a frame becomes no longer than announced, but for a part of its last block.
pub(super) fn check_frame(frame: &[u8], announced_bytes: usize) -> Result<(), ArrowError> {
    let (header, _) = frame.split_first_chunk::<6>().ok_or_else(|| ipc("a short LZ4 frame"))?;
    let [m0, m1, m2, m3, flags, descriptor] = *header;
    if [m0, m1, m2, m3] != MAGIC {
        return Err(ipc("an LZ4 frame without its magic number"));
    }
    let n_block_bytes = match (descriptor >> 4) & 7 {
        4 => 64 << 10,
        5 => 256 << 10,
        6 => 1 << 20,
        7 => 4 << 20,
        other => return Err(ipc(format!("LZ4 blocks of the size {other}"))),
    };
    let n_size_bytes = if flags & HAS_CONTENT_SIZE > 0 { 8 } else { 0 };
    let n_dictionary_bytes = if flags & HAS_DICTIONARY > 0 { 4 } else { 0 };
    // A checksum of the header is its last byte.
    let blocks = frame.get(header.len() + n_size_bytes + n_dictionary_bytes + 1..);
    let blocks = blocks.ok_or_else(|| ipc("a short LZ4 frame"))?;
    let n_checksum_bytes = if flags & HAS_BLOCK_CHECKSUMS > 0 { 4 } else { 0 };
    let most = most_bytes(blocks, n_block_bytes, n_checksum_bytes);
    if most > announced_bytes.saturating_add(n_block_bytes) {
        return Err(ipc(format!("up to {most} bytes of LZ4 for {announced_bytes} announced ones")));
    }
    Ok(())
}

/// The sum of what the blocks may become. One that is cut ends it, as it ends the decompression.
fn most_bytes(mut blocks: &[u8], n_block_bytes: usize, n_checksum_bytes: usize) -> usize {
    let mut most = 0_usize;
    while let Some((size, rest)) = blocks.split_first_chunk::<4>() {
        let size = u32::from_le_bytes(*size);
        if size == 0 {
            break;
        }
        let n_bytes = (size & !IS_STORED) as usize;
        let becomes = if size & IS_STORED > 0 { n_bytes } else { n_block_bytes };
        most = most.saturating_add(becomes);
        let Some(rest) = rest.get(n_bytes + n_checksum_bytes..) else { break };
        blocks = rest;
    }
    most
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A frame of blocks of 64 KiB at most.
    fn frame(flags: u8, blocks: &[(u32, usize)]) -> Vec<u8> {
        let mut frame = MAGIC.to_vec();
        frame.extend([0x60 | flags, 0x40, 0]);
        for (size, n_bytes) in blocks {
            frame.extend(size.to_le_bytes());
            frame.extend(vec![7; *n_bytes]);
        }
        frame
    }

    #[test]
    fn as_many_blocks_as_announced_pass() {
        let honest = frame(0, &[(20, 20), (9, 9), (IS_STORED | 10, 10), (0, 0)]);
        check_frame(&honest, 65_536 + 300 + 10).expect("two blocks and a stored one");
        check_frame(&honest, 100).expect_err("two blocks for one");
        check_frame(&frame(HAS_BLOCK_CHECKSUMS, &[(20, 24), (0, 0)]), 5).expect("one block");
    }

    #[test]
    fn bombs_and_other_frames_are_refused() {
        let bomb = frame(0, &[(1, 1); 1000]);
        check_frame(&bomb, 1_000_000).expect_err("64 MB");
        for other in [&b""[..], &MAGIC, b"\x02\x21\x4c\x18 legacy frame", &frame(0, &[])[..6]] {
            check_frame(other, 1000).expect_err("no frame");
        }
        let mut huge = frame(0, &[(1, 1)]);
        huge[5] = 0x30;
        check_frame(&huge, 1000).expect_err("blocks of an unknown size");
    }
}
