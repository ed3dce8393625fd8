//! Byte queue limits (BQL) of devices with hardware behind them: what their drivers may hold where no qdisc sees it.

use std::fs;
use std::path::Path;

/// `DQL_MAX_LIMIT`: where nobody set one.
const NO_MAX: u64 = 1_879_048_192;

/// Of one device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Queues {
    pub dev: String,
    /// Transmit queues that have the files.
    pub count: u32,
    /// The driver counts bytes: some limit is not 0.
    pub counted: bool,
    /// A maximum that somebody set and that is used up, bytes; the lowest of all queues.
    pub capped: Option<u64>,
}

/// Of the calling thread's mount of `sys` (`/sys`), which is of one network namespace.
pub fn queues(sys: &Path) -> Vec<Queues> {
    let entries = fs::read_dir(sys.join("class/net")).into_iter().flatten();
    let mut found: Vec<Queues> = entries
        .flatten()
        .filter(|entry| entry.path().join("device").exists())
        .filter_map(|entry| of(&entry.path(), entry.file_name().into_string().ok()?))
        .collect();
    found.sort_by(|a, b| a.dev.cmp(&b.dev));
    found
}

fn of(device: &Path, dev: String) -> Option<Queues> {
    let number = |path: &Path, name: &str| -> Option<u64> {
        let text = fs::read_to_string(path.join("byte_queue_limits").join(name)).ok()?;
        text.trim().parse().ok()
    };
    let mut queues = Queues {
        dev,
        count: 0,
        counted: false,
        capped: None,
    };
    for queue in fs::read_dir(device.join("queues")).ok()?.flatten() {
        let (Some(limit), Some(max)) = (
            number(&queue.path(), "limit"),
            number(&queue.path(), "limit_max"),
        ) else {
            continue;
        };
        queues.count += 1;
        queues.counted |= limit > 0;
        if max < NO_MAX && limit >= max {
            queues.capped = Some(queues.capped.unwrap_or(max).min(max));
        }
    }
    (queues.count > 0).then_some(queues)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_read_queue_by_queue() {
        let sys = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = sys.path().join("class/net").join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        for (dev, queue, limit, max) in [
            ("eth0", "tx-0", "3000\n", "1879048192\n"),
            ("eth0", "tx-1", "2000\n", "2000\n"),
            ("eth1", "tx-0", "0\n", "1879048192\n"),
            ("virtual", "tx-0", "0\n", "1879048192\n"),
        ] {
            write(
                &format!("{dev}/queues/{queue}/byte_queue_limits/limit"),
                limit,
            );
            write(
                &format!("{dev}/queues/{queue}/byte_queue_limits/limit_max"),
                max,
            );
        }
        write("eth0/queues/rx-0/rps_cpus", "0\n");
        for dev in ["eth0", "eth1"] {
            write(&format!("{dev}/device/vendor"), "0x1\n");
        }
        let queues = queues(sys.path());
        let short: Vec<_> = queues
            .iter()
            .map(|q| (q.dev.as_str(), q.count, q.counted, q.capped))
            .collect();
        assert_eq!(
            short,
            [("eth0", 2, true, Some(2000)), ("eth1", 1, false, None)]
        );
    }
}
