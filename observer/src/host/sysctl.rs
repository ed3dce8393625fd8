//! The sysctls that bear on a TCP sender, as the calling thread's network namespace has them.
//!
//! `/proc/sys/net` is resolved by the namespace of the *thread that opens the file* (`net_ctl_header_lookup()` takes
//! `current->nsproxy`), whatever mount of `/proc` is used: to read another namespace's, read them inside
//! [`super::netns::enter`].

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// What is read, dotted. A kernel may lack some of them, and namespaces other than the first lack the machine-wide ones.
pub const NAMES: &[&str] = &[
    "net.core.default_qdisc",
    "net.core.netdev_budget",
    "net.core.netdev_max_backlog",
    "net.core.optmem_max",
    "net.core.rmem_default",
    "net.core.rmem_max",
    "net.core.somaxconn",
    "net.core.wmem_default",
    "net.core.wmem_max",
    "net.ipv4.ip_no_pmtu_disc",
    "net.ipv4.tcp_adv_win_scale",
    "net.ipv4.tcp_allowed_congestion_control",
    "net.ipv4.tcp_app_win",
    "net.ipv4.tcp_autocorking",
    "net.ipv4.tcp_available_congestion_control",
    "net.ipv4.tcp_base_mss",
    "net.ipv4.tcp_comp_sack_delay_ns",
    "net.ipv4.tcp_comp_sack_nr",
    "net.ipv4.tcp_comp_sack_slack_ns",
    "net.ipv4.tcp_congestion_control",
    "net.ipv4.tcp_dsack",
    "net.ipv4.tcp_early_retrans",
    "net.ipv4.tcp_ecn",
    "net.ipv4.tcp_ecn_fallback",
    "net.ipv4.tcp_fastopen",
    "net.ipv4.tcp_frto",
    "net.ipv4.tcp_keepalive_time",
    "net.ipv4.tcp_limit_output_bytes",
    "net.ipv4.tcp_max_reordering",
    "net.ipv4.tcp_mem",
    "net.ipv4.tcp_min_rtt_wlen",
    "net.ipv4.tcp_min_snd_mss",
    "net.ipv4.tcp_min_tso_segs",
    "net.ipv4.tcp_moderate_rcvbuf",
    "net.ipv4.tcp_mtu_probe_floor",
    "net.ipv4.tcp_mtu_probing",
    "net.ipv4.tcp_no_metrics_save",
    "net.ipv4.tcp_no_ssthresh_metrics_save",
    "net.ipv4.tcp_notsent_lowat",
    "net.ipv4.tcp_pacing_ca_ratio",
    "net.ipv4.tcp_pacing_ss_ratio",
    "net.ipv4.tcp_plb_enabled",
    "net.ipv4.tcp_recovery",
    "net.ipv4.tcp_reordering",
    "net.ipv4.tcp_retries1",
    "net.ipv4.tcp_retries2",
    "net.ipv4.tcp_rmem",
    "net.ipv4.tcp_rto_max_ms",
    "net.ipv4.tcp_rto_min_us",
    "net.ipv4.tcp_sack",
    "net.ipv4.tcp_shrink_window",
    "net.ipv4.tcp_slow_start_after_idle",
    "net.ipv4.tcp_syn_retries",
    "net.ipv4.tcp_synack_retries",
    "net.ipv4.tcp_thin_linear_timeouts",
    "net.ipv4.tcp_timestamps",
    "net.ipv4.tcp_tso_rtt_log",
    "net.ipv4.tcp_tso_win_divisor",
    "net.ipv4.tcp_tw_reuse",
    "net.ipv4.tcp_window_scaling",
    "net.ipv4.tcp_wmem",
    "net.ipv4.tcp_workaround_signed_windows",
];

/// Reads [`NAMES`] under `root` (`/proc/sys`).
pub fn read_all(root: &Path) -> BTreeMap<String, Option<String>> {
    NAMES
        .iter()
        .map(|name| ((*name).to_owned(), read(root, name)))
        .collect()
}

/// One sysctl by its dotted name, white space made single spaces. `None` = this kernel has no such setting (TRAPS 32),
/// or it cannot be read.
pub fn read(root: &Path, name: &str) -> Option<String> {
    let bytes = fs::read(root.join(name.replace('.', "/"))).ok()?;
    Some(normal(&bytes))
}

pub(super) fn normal(bytes: &[u8]) -> String {
    let value = String::from_utf8_lossy(bytes);
    value.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(files: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        root
    }

    #[test]
    fn values_are_normalised() {
        let root = tree(&[
            ("net/ipv4/tcp_rmem", "4096\t131072\t6291456\n"),
            ("net/core/default_qdisc", "fq\n"),
        ]);
        let all = read_all(root.path());
        assert_eq!(
            all["net.ipv4.tcp_rmem"].as_deref(),
            Some("4096 131072 6291456")
        );
        assert_eq!(all["net.core.default_qdisc"].as_deref(), Some("fq"));
        assert_eq!(all.len(), NAMES.len());
    }

    #[test]
    fn trap_32_a_setting_this_kernel_lacks_is_unknown_not_empty() {
        let root = tree(&[("net/ipv4/tcp_allowed_congestion_control", "\n")]);
        let all = read_all(root.path());
        assert_eq!(all["net.ipv4.tcp_shrink_window"], None);
        assert_eq!(read(root.path(), "net.ipv4.tcp_bbr_pacing_gain"), None);
        assert_eq!(
            all["net.ipv4.tcp_allowed_congestion_control"].as_deref(),
            Some("")
        );
    }

    #[test]
    fn names_are_sorted_and_single() {
        assert!(NAMES.is_sorted_by(|a, b| a < b));
    }
}
