//! The eBPF object this binary carries.

static OBJECT: &[u8] = aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/observer.o"));

/// What makes the object, for the message where there is none.
pub const BUILD_COMMAND: &str = "cargo xtask build --release";

/// The object, aligned as its parser wants it; `None` when it was not there at build time (see `build.rs`).
pub fn object() -> Option<&'static [u8]> {
    (!OBJECT.is_empty()).then_some(OBJECT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_embedded_is_an_aligned_bpf_object_or_nothing() {
        let Some(object) = object() else { return };
        assert_eq!(object.as_ptr().addr() % 8, 0);
        assert_eq!(&object[..4], b"\x7fELF");
        // e_machine: EM_BPF.
        assert_eq!(object[18..20], 247u16.to_le_bytes());
    }
}
