//! Any bytes as a capture: no panic, and nothing but events in the order of time.

#![no_main]

use std::io::Write as _;

use libfuzzer_sys::fuzz_target;
use observer::import::Capture;

fuzz_target!(|bytes: &[u8]| {
    let mut file = tempfile::tempfile().expect("a file");
    file.write_all(bytes).expect("written");
    if let Ok(capture) = Capture::survey(file) {
        let mut last = observer::units::Mono(0);
        let _ = capture.events(|event| {
            assert!(event.time >= last);
            last = event.time;
            Ok::<(), std::io::Error>(())
        });
    }
});
