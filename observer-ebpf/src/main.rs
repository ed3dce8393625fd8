//! Entry points of the kernel programs, and the panic handler. On the host this is an empty binary: the programs'
//! pure parts are tested through the library.
#![cfg_attr(target_arch = "bpf", no_std, no_main)]
// The one exchange in emit.rs; the build sets RUSTC_BOOTSTRAP for `build-std` anyway.
#![cfg_attr(target_arch = "bpf", feature(asm_experimental_arch))]
#![cfg_attr(
    target_arch = "bpf",
    expect(
        clippy::inline_always,
        clippy::needless_pass_by_value,
        reason = "registers and stack are few; the macro calls with a value"
    )
)]

#[cfg(target_arch = "bpf")]
mod congestion;
#[cfg(target_arch = "bpf")]
mod emit;
#[cfg(target_arch = "bpf")]
mod filter;
#[cfg(target_arch = "bpf")]
mod maps;
#[cfg(target_arch = "bpf")]
mod programs;
#[cfg(target_arch = "bpf")]
mod reader;
#[cfg(target_arch = "bpf")]
mod sock;
#[cfg(target_arch = "bpf")]
mod task;
#[cfg(target_arch = "bpf")]
mod tcp;

#[cfg(target_arch = "bpf")]
pub(crate) use observer_ebpf::{kind, pace};

#[cfg(target_arch = "bpf")]
mod entry {
    use aya_ebpf::EbpfContext;
    use aya_ebpf::macros::btf_tracepoint;
    use aya_ebpf::programs::BtfTracePointContext;
    use observer_common::outcome::Program;

    use crate::emit::counted;
    use crate::programs;

    #[btf_tracepoint(function = "tcp_probe")]
    pub fn on_probe(context: BtfTracePointContext) -> i32 {
        counted(Program::Probe, || programs::probe(context.as_ptr().cast()))
    }

    #[btf_tracepoint(function = "tcp_retransmit_skb")]
    pub fn on_retransmit(context: BtfTracePointContext) -> i32 {
        counted(Program::Retransmit, || {
            programs::retransmit(context.as_ptr().cast())
        })
    }

    #[btf_tracepoint(function = "tcp_retransmit_synack")]
    pub fn on_synack(context: BtfTracePointContext) -> i32 {
        counted(Program::RetransmitSynack, || {
            programs::synack(context.as_ptr().cast())
        })
    }

    #[btf_tracepoint(function = "inet_sock_set_state")]
    pub fn on_set_state(context: BtfTracePointContext) -> i32 {
        counted(Program::SetState, || {
            programs::set_state(context.as_ptr().cast())
        })
    }

    #[btf_tracepoint(function = "tcp_destroy_sock")]
    pub fn on_destroy(context: BtfTracePointContext) -> i32 {
        counted(Program::Destroy, || {
            programs::destroy(context.as_ptr().cast())
        })
    }

    #[btf_tracepoint(function = "tcp_cong_state_set")]
    pub fn on_cong_state(context: BtfTracePointContext) -> i32 {
        counted(Program::CongState, || {
            programs::cong_state(context.as_ptr().cast())
        })
    }

    // aya-ebpf 0.2 has no attribute for iterators.
    #[unsafe(no_mangle)]
    #[unsafe(link_section = "iter/tcp")]
    pub extern "C" fn on_sweep(context: *const u64) -> i32 {
        counted(Program::Sweep, || programs::sweep(context))
    }

    #[unsafe(no_mangle)]
    #[unsafe(link_section = "iter/task_file")]
    pub extern "C" fn on_owners(context: *const u64) -> i32 {
        counted(Program::Owners, || programs::owners(context))
    }

    #[panic_handler]
    fn panic(_info: &core::panic::PanicInfo) -> ! {
        // Nothing here panics; were it to, the verifier would refuse the endless loop.
        loop {}
    }

    #[unsafe(link_section = "license")]
    #[unsafe(no_mangle)]
    static LICENSE: [u8; 13] = *b"Dual MIT/GPL\0";
}

#[cfg(not(target_arch = "bpf"))]
fn main() {}
