//! What is fuzzed, a function a parser: any bytes, no panic, an end. The same by libFuzzer (`fuzz_targets/`, `cargo xtask fuzz`)
//! and, bounded, in `tests/fuzz.rs`.

// Each target uses one of them.
#![allow(dead_code)]

use std::fs::File;
use std::io::{Cursor, Write as _};
use std::path::Path;
use std::sync::Arc;

use observer::filter::Filter;
use observer::import::Capture;
use observer::kernel::btf::{Btf, resolve, trim};
use observer::kernel::congestion::CcLayouts;
use observer::record::Reader;
use observer::tui::config::Config;

/// As a kernel's BTF, and as a module's on top of it. The first two bytes say where the module begins.
pub fn btf(bytes: &[u8]) {
    let Some((at, bytes)) = bytes.split_first_chunk::<2>() else {
        return;
    };
    let (base, module) = bytes.split_at(bytes.len().min(usize::from(u16::from_le_bytes(*at))));
    let Ok(base) = Btf::parse(base.to_vec()) else {
        return;
    };
    let base = Arc::new(base);
    let _ = resolve(&base);
    let mut layouts = CcLayouts::in_dir(Arc::clone(&base), Path::new(""));
    for name in ["bbr", "cubic", "dctcp"] {
        if let Ok(layout) = layouts.layout(0, name, None) {
            let _ = layout.decode(&[u64::MAX; 18], u32::MAX);
        }
    }
    let module = Btf::parse_split(module.to_vec(), Arc::clone(&base));
    let _ = trim::trim(&base, &module.into_iter().collect::<Vec<_>>());
}

/// As a filter: an error that can be shown, or a canonical form that means the same.
pub fn filter(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    match Filter::parse_str(&text) {
        Ok(filter) => {
            let again = Filter::parse_str(&filter.to_string());
            assert_eq!(again.as_ref(), Ok(&filter));
        }
        Err(error) => {
            assert!(text.get(error.at..error.at + error.len).is_some());
            assert!(!error.to_string().contains('\u{1b}'));
        }
    }
}

/// As the settings' file: an error whose place is in it.
pub fn config(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    if let Err(error) = Config::parse(&text) {
        assert!(error.line <= text.matches('\n').count() + 1);
        assert!(!error.message.contains(char::is_control), "{error:?}");
    }
}

/// As a capture: events in the order of time, and nothing else.
pub fn import(bytes: &[u8]) {
    let memory = rustix::fs::memfd_create(c"capture", rustix::fs::MemfdFlags::CLOEXEC);
    let mut file = File::from(memory.expect("memory"));
    file.write_all(bytes).expect("written");
    if let Ok(capture) = Capture::survey(file) {
        let mut last = observer::units::Mono(0);
        let _ = capture.events(|event| {
            assert!(event.time >= last);
            last = event.time;
            Ok::<(), std::io::Error>(())
        });
    }
}

/// As the kernel's answers over netlink: every reader of devices, qdiscs, routes, offloads and sockets.
pub fn netlink(bytes: &[u8]) {
    observer::host::read_replies(bytes);
    let sockets = observer::kernel::diag::read_sockets(bytes);
    assert!(sockets.iter().all(|socket| socket.id.netns == 0));
}

/// As the texts of /proc, /sys and /etc that are read.
pub fn proc(bytes: &[u8]) {
    observer::host::read_texts(bytes);
    let text = String::from_utf8_lossy(bytes);
    let _ = observer::kernel::counters::parse_fdinfo(&text);
    let _ = observer::model::container::place(&text);
    for (name, _) in observer::doctor::settings(&text) {
        assert!(name.starts_with("net.") && !name.contains('/'));
    }
}

/// Magic, header, metadata, an empty set of labels, and the chunk with the channels, as 0.1.0 writes them.
const HEAD: &[u8] = include_bytes!("fuzz_targets/record.head");

/// As a recording, and as what a chunk holds: no memory beyond the limits.
pub fn record(bytes: &[u8]) {
    read(bytes);
    // A file whose header is right and whose only chunk is neither packed nor has a checksum: what is fuzzed reaches the
    // messages.
    let mut file = HEAD.to_vec();
    let content = (8 * 3 + 4 + 4 + 8 + bytes.len()) as u64;
    file.push(6);
    file.extend(content.to_le_bytes());
    file.extend([0; 16]);
    file.extend((bytes.len() as u64).to_le_bytes());
    file.extend([0; 8]);
    file.extend((bytes.len() as u64).to_le_bytes());
    file.extend(bytes);
    read(&file);
}

fn read(bytes: &[u8]) {
    let Ok(mut reader) = Reader::new(Cursor::new(bytes)) else {
        return;
    };
    let index = reader.index().expect("memory reads");
    let mut first = None;
    while let Ok(Some(events)) = reader.batch() {
        first = first.or(events.first().map(|event| event.time));
    }
    assert!(reader.ending().is_some());
    if reader.seek(&index, first.unwrap_or_default()).is_ok() {
        while let Ok(Some(_)) = reader.batch() {}
    }
}
