//! Protobuf's wire: varints, zigzag, and fields one after the other.

/// Appends `value`, 7 bits a byte.
#[inline]
pub fn put(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Takes a varint off the front; `None` = cut off, or longer than 64 bits.
#[inline]
pub fn take(bytes: &mut &[u8]) -> Option<u64> {
    // Differences are mostly small.
    if let [first @ 0..=0x7f, rest @ ..] = bytes {
        *bytes = rest;
        return Some(u64::from(*first));
    }
    let mut value = 0u64;
    for (at, &byte) in bytes.iter().enumerate().take(10) {
        value |= u64::from(byte & 0x7f) << (7 * at);
        if byte < 0x80 {
            if at == 9 && byte > 1 {
                return None;
            }
            *bytes = &bytes[at + 1..];
            return Some(value);
        }
    }
    None
}

/// Small differences of either sign become small numbers.
pub fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)) as u64
}

pub fn unzigzag(value: u64) -> i64 {
    (value >> 1) as i64 ^ -((value & 1) as i64)
}

/// What a field holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value<'a> {
    Number(u64),
    Bytes(&'a [u8]),
    /// Fixed width: no field of ours.
    Fixed,
}

/// Takes a field off the front: its number and value. `None` = not protobuf.
pub fn field<'a>(bytes: &mut &'a [u8]) -> Option<(u32, Value<'a>)> {
    let tag = take(bytes)?;
    let number = u32::try_from(tag >> 3).ok()?;
    let length = match tag & 7 {
        0 => return Some((number, Value::Number(take(bytes)?))),
        1 => 8,
        5 => 4,
        2 => usize::try_from(take(bytes)?).ok()?,
        _ => return None,
    };
    let (head, rest) = bytes.split_at_checked(length)?;
    *bytes = rest;
    let value = if tag & 7 == 2 {
        Value::Bytes(head)
    } else {
        Value::Fixed
    };
    Some((number, value))
}

/// Appends a field of bytes.
pub fn put_bytes(out: &mut Vec<u8>, number: u32, bytes: &[u8]) {
    put(out, u64::from(number) << 3 | 2);
    put(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Appends a field of a number.
pub fn put_number(out: &mut Vec<u8>, number: u32, value: u64) {
    put(out, u64::from(number) << 3);
    put(out, value);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_back() {
        for value in [0, 1, 127, 128, 300, u64::from(u32::MAX), u64::MAX] {
            let mut out = Vec::new();
            put(&mut out, value);
            let mut rest = out.as_slice();
            assert_eq!(take(&mut rest), Some(value));
            assert!(rest.is_empty());
            assert_eq!(take(&mut &out[..out.len() - 1]), None, "cut off");
        }
        for value in [0, -1, 1, i64::MIN, i64::MAX] {
            assert_eq!(unzigzag(zigzag(value)), value);
        }
        let (mut long, mut wide) = ([0xff; 11], [0xff; 10]);
        (long[10], wide[9]) = (0, 2);
        assert_eq!(take(&mut long.as_slice()), None, "too long");
        assert_eq!(take(&mut wide.as_slice()), None, "65 bits");
    }
}
