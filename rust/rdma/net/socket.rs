// SPDX-License-Identifier: GPL-2.0

//! UDP sockets of the kernel.
//!
//! C header: [`include/net/udp_tunnel.h`](srctree/include/net/udp_tunnel.h)

use super::{
    addr,
    NetDevice,
    Skb,
    SkbPool, //
};
use crate::sync::{
    Anchor,
    Cx,
    IrqsOn,
    Sleepable,
    Unlocked, //
};
use core::net::SocketAddr;
use core::ops::Deref;
use core::pin::Pin;
use core::ptr::NonNull;
use kernel::bindings;
use kernel::container_of;
use kernel::error::to_result;
use kernel::prelude::*;
use kernel::sync::atomic::{
    Atomic,
    Full, //
};
use kernel::types::Opaque;
use sib_bindings::sib_udp_flow;

/// How long one softirq takes datagrams, in nanoseconds. Others get a turn before the next.
const LONGEST_NS: u64 = 1_000_000;

/// The version of IP that a socket speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// IPv4.
    V4,
    /// IPv6, and nothing else.
    V6,
}

/// What becomes of received datagrams.
pub trait Receive: Send + Sync + 'static {
    /// Takes a datagram, without its UDP header, or a batch of datagrams, in a softirq.
    ///
    /// One call at a time for each socket, in the order of arrival.
    fn receive(&self, packet: Skb, from: SocketAddr, cx: Cx<'_, Unlocked>, irqs: IrqsOn<'_>);
}

/// What the C socket points to.
///
/// Datagrams are handed on in the order of the socket's queue, by one context at a time: the one that found
/// nobody at it. What is left when its time is up is for the work item.
///
/// # Invariants
///
/// `sk` is the socket that points to this.
#[pin_data]
struct Hook<A> {
    target: A,
    sk: NonNull<bindings::sock>,
    /// How many have been announced and not been taken yet. Somebody is at it unless this is zero.
    due: Atomic<u32>,
    #[pin]
    work: Opaque<bindings::work_struct>,
    /// Keeps the network namespace alive, which kernel sockets do not.
    _device: NetDevice,
}

impl<A: Anchor> Hook<A>
where
    <A as Deref>::Target: Receive + Sized,
{
    fn new(target: A, sk: NonNull<bindings::sock>, device: NetDevice) -> impl PinInit<Self> {
        let class = kernel::static_lock_class!();
        // INVARIANT: The caller lets the socket point to this.
        pin_init!(Self {
            target,
            sk,
            due: Atomic::new(0),
            work <- Opaque::ffi_init(|slot| {
                // SAFETY: `slot` is valid for the call; name and class live forever.
                unsafe {
                    bindings::init_work_with_key(
                        slot,
                        Some(Self::resume),
                        false,
                        c"UdpSocket".as_char_ptr(),
                        class.as_ptr(),
                    )
                }
            }),
            _device: device,
        })
    }

    /// Hands on what is due, as long as it may.
    ///
    /// # Safety
    ///
    /// Called in a softirq with no lock held, by the one context that is at it, while the socket is live.
    unsafe fn drain(&self) {
        let end = crate::time::now_ns().saturating_add(LONGEST_NS);
        loop {
            // SAFETY: Promised by the caller.
            unsafe { self.hand_on() };
            if self.due.fetch_sub(1, Full) == 1 {
                return;
            }
            if crate::time::now_ns() > end {
                break;
            }
        }
        // SAFETY: The queue exists always; the item is initialised, and cancelled before it goes.
        unsafe {
            bindings::queue_work_on(
                bindings::wq_misc_consts_WORK_CPU_UNBOUND as c_int,
                bindings::system_bh_wq,
                self.work.get(),
            )
        };
    }

    /// Hands on one datagram, or batch of them.
    ///
    /// # Safety
    ///
    /// As [`Self::drain`].
    unsafe fn hand_on(&self) {
        let mut from = sib_bindings::sib_udp_address::default();
        // SAFETY: The socket is live by the promise above.
        let skb = unsafe { sib_bindings::sib_helper_udp_take(self.sk.as_ptr(), &mut from) };
        let Some(skb) = NonNull::new(skb) else {
            return;
        };
        // SAFETY: The queue has given its reference away.
        let packet = unsafe { Skb::from_raw(skb) };
        // SAFETY: A softirq is entered with no lock held; what it interrupts has them with interrupts off. The
        // code in between is the network stack's, or the work queue's.
        let cx = unsafe { Cx::root() };
        // SAFETY: Softirqs run with interrupts on.
        let irqs = unsafe { IrqsOn::new() };
        self.target.receive(packet, addr::from_c(&from), cx, irqs);
    }

    /// What the UDP code calls when it has put a datagram, or a batch of datagrams, into the queue.
    ///
    /// # Safety
    ///
    /// `sk` is a socket that points to such a hook, or to nothing. The caller holds the RCU read lock, in a
    /// softirq.
    unsafe extern "C" fn announce(sk: *mut bindings::sock) {
        // SAFETY: Under the RCU read lock by the promise above.
        let hook = unsafe { sib_bindings::sib_helper_udp_user_data(sk) };
        // SAFETY: A socket points to its hook until that is about to go, and a grace period longer.
        if let Some(hook) = unsafe { hook.cast::<Self>().as_ref() } {
            if hook.due.fetch_add(1, Full) == 0 {
                // SAFETY: In a softirq; nobody was at it. The socket outlives the grace period as the hook does.
                unsafe { hook.drain() };
            }
        }
    }

    /// What the work queue calls.
    ///
    /// # Safety
    ///
    /// `work` is the item of a live hook, which [`Self::drain`] has queued.
    unsafe extern "C" fn resume(work: *mut bindings::work_struct) {
        // SAFETY: `work` is that field by the promise above; `Opaque` is transparent.
        let hook = unsafe { &*container_of!(Opaque::cast_from(work), Self, work) };
        // SAFETY: The queue is one that works in softirqs. Who has queued the item was at it, and left it to this.
        // The item is cancelled before the socket goes.
        unsafe { hook.drain() };
    }
}

/// A bound UDP socket of the kernel, which hands what it receives to `A`.
///
/// It keeps `A` until it is dropped; if `A` owns the socket, take it out of `A` to end both. Dropping sleeps:
/// it must happen in a task that holds no lock. [`Self::close`] has this checked.
///
/// # Invariants
///
/// `sk` is a live socket of which this is the only owner. It points to `hook`, which is pinned and of which this is
/// the only owner too. The hook is not used any more when the socket no longer points to it, a grace period has
/// passed, and its work item is cancelled.
pub struct UdpSocket<A: Anchor>
where
    <A as Deref>::Target: Receive + Sized,
{
    sk: NonNull<bindings::sock>,
    hook: NonNull<Hook<A>>,
    pool: SkbPool,
}

// SAFETY: A socket may be used and released by any task; `A` is `Send` and `Sync`.
unsafe impl<A: Anchor> Send for UdpSocket<A> where <A as Deref>::Target: Receive + Sized {}
// SAFETY: Sending on a socket is thread-safe.
unsafe impl<A: Anchor> Sync for UdpSocket<A> where <A as Deref>::Target: Receive + Sized {}

impl<A: Anchor> UdpSocket<A>
where
    <A as Deref>::Target: Receive + Sized,
{
    /// Opens a socket in the network namespace of `device` on all local addresses, and starts to receive.
    ///
    /// The device stays in that namespace, which lives on, until the socket is closed: who opens one has the notifier of
    /// [`DeviceEvent::Unregister`](super::DeviceEvent::Unregister) close it, or wait for that.
    ///
    /// `bound` restricts it to datagrams that come in by `device`: several such sockets can share a `port`.
    /// Port zero stands for any free one.
    ///
    /// # Errors
    ///
    /// `EADDRINUSE` when the port is taken, `EAFNOSUPPORT` when the version of IP is not available.
    pub fn open(
        device: &NetDevice,
        version: Version,
        port: u16,
        bound: bool,
        target: A,
        _cx: &mut Cx<'_, Unlocked>,
        _sleepable: Sleepable<'_>,
    ) -> Result<Self> {
        let version = match version {
            Version::V4 => addr::VERSION_4,
            Version::V6 => addr::VERSION_6,
        };
        let pool = SkbPool::new()?;
        let ifindex = if bound { device.ifindex() } else { 0 };
        let mut sk = core::ptr::null_mut();
        // SAFETY: The namespace is alive, see above; `sk` is valid for the result.
        to_result(unsafe {
            sib_bindings::sib_helper_udp_open(
                device.namespace(),
                version,
                port,
                ifindex as c_int,
                &mut sk,
            )
        })?;
        let sk = NonNull::new(sk).ok_or(ENOMEM)?;
        let hook = match KBox::pin_init(Hook::new(target, sk, device.clone()), GFP_KERNEL) {
            Ok(hook) => hook,
            Err(error) => {
                // SAFETY: Fresh and ours.
                unsafe { sib_bindings::udp_tunnel_sock_release(sk.as_ptr()) };
                return Err(error);
            }
        };
        // SAFETY: It is not moved out: `drop` makes a pinned box of it again.
        let hook = NonNull::from(KBox::leak(unsafe { Pin::into_inner_unchecked(hook) }));
        // SAFETY: The socket is fresh. The hook lives until the socket no longer points to it and a grace period
        // has passed, see `drop`.
        unsafe {
            sib_bindings::sib_helper_udp_start(
                sk.as_ptr(),
                hook.as_ptr().cast(),
                Some(Hook::<A>::announce),
            )
        };
        // INVARIANT: Both are fresh and given to nobody else.
        Ok(Self { sk, hook, pool })
    }

    /// The port that the socket is bound to.
    pub fn port(&self) -> u16 {
        // SAFETY: Live by the invariant.
        unsafe { sib_bindings::sib_helper_udp_local_port(self.sk.as_ptr()) }
    }

    /// Where packets to send are best allocated.
    #[inline]
    pub fn pool(&self) -> &SkbPool {
        &self.pool
    }

    /// Sends `packet` along `path`, without sleeping.
    ///
    /// # Errors
    ///
    /// `ENETUNREACH` when there is no route. As with any datagram, success does not mean arrival.
    #[inline]
    pub fn send(
        &self,
        packet: Skb,
        path: &Path,
        _cx: &mut Cx<'_, Unlocked>,
        _irqs: IrqsOn<'_>,
    ) -> Result {
        // SAFETY: The socket is live by the invariant, the packet is given away, the cache is initialised.
        // No lock of the hierarchy is held and interrupts were on at entry, so they are on.
        to_result(unsafe {
            sib_bindings::sib_helper_udp_send(
                self.sk.as_ptr(),
                packet.into_raw(),
                &path.flow,
                path.cache.get(),
            )
        })
    }

    /// Ends reception and closes the socket. After the return no hook runs.
    pub fn close(self, _cx: &mut Cx<'_, Unlocked>, _sleepable: Sleepable<'_>) {
        drop(self);
    }
}

impl<A: Anchor> Drop for UdpSocket<A>
where
    <A as Deref>::Target: Receive + Sized,
{
    fn drop(&mut self) {
        // SAFETY: Live and ours by the invariant.
        unsafe { sib_bindings::sib_helper_udp_stop(self.sk.as_ptr()) };
        // SAFETY: Callable in a task. After it nobody announces anything any more.
        unsafe { bindings::synchronize_rcu() };
        // SAFETY: The hook is ours by the invariant, so the item is initialised; this is a task.
        unsafe { bindings::cancel_work_sync(self.hook.as_ref().work.get()) };
        // SAFETY: Live and ours by the invariant, and in use by nobody else.
        unsafe { sib_bindings::udp_tunnel_sock_release(self.sk.as_ptr()) };
        // SAFETY: The hook is ours by the invariant, was pinned, and nobody uses it any more.
        drop(unsafe { Pin::new_unchecked(KBox::from_raw(self.hook.as_ptr())) });
    }
}

/// A way to a UDP address, with the route cached.
pub struct Path {
    flow: sib_udp_flow,
    remote: SocketAddr,
    cache: Opaque<sib_bindings::dst_cache>,
}

// SAFETY: The cache is per CPU and used with bottom halves off.
unsafe impl Send for Path {}
// SAFETY: As above.
unsafe impl Sync for Path {}

impl Path {
    /// Makes a way to `remote`, which may be a broadcast or multicast address. May sleep.
    ///
    /// `hops` is the time to live. With a `device`, packets leave by it whatever the routing table prefers;
    /// an IPv6 address of the link needs it or a scope.
    pub fn new(remote: SocketAddr, hops: u8, device: Option<&NetDevice>) -> Result<Self> {
        let cache = Opaque::uninit();
        // SAFETY: The cache is valid for writes, and may be moved afterwards.
        to_result(unsafe { sib_bindings::dst_cache_init(cache.get(), bindings::GFP_KERNEL) })?;
        Ok(Self {
            flow: sib_udp_flow {
                remote: addr::to_c(remote),
                hops,
                ifindex: device.map_or(0, |device| device.ifindex() as c_int),
                ..Default::default()
            },
            remote,
            cache,
        })
    }

    /// The address at the other end.
    pub fn remote(&self) -> SocketAddr {
        self.remote
    }
}

impl Drop for Path {
    fn drop(&mut self) {
        // SAFETY: Initialised by `new`, and nobody uses it any more.
        unsafe { sib_bindings::dst_cache_destroy(self.cache.get()) }
    }
}

#[kunit_tests(sib_rdma_udp)]
mod tests {
    use super::*;
    use crate::net::{
        DeviceEvent,
        Notifier,
        Notify,
        Tail, //
    };
    use crate::sync::{
        test_context,
        DevLock,
        LevelLock, //
    };
    use core::net::{
        IpAddr,
        Ipv4Addr,
        Ipv6Addr, //
    };
    use kernel::sync::atomic::{
        Atomic,
        Full,
        Relaxed, //
    };
    use kernel::sync::{
        Arc,
        Completion, //
    };

    /// Catches the loopback device, which is reported to a new notifier.
    struct Finder {
        found: Pin<KBox<LevelLock<Option<NetDevice>, DevLock>>>,
    }

    impl Notify for Finder {
        fn notify(
            &self,
            event: DeviceEvent,
            device: &NetDevice,
            mut cx: Cx<'_, Unlocked>,
            _sleepable: Sleepable<'_>,
        ) {
            if event == DeviceEvent::Up && device.is_loopback() {
                *cx.lock(&self.found) = Some(device.clone());
            }
        }
    }

    fn loopback(cx: &mut Cx<'_, Unlocked>, sleepable: Sleepable<'_>) -> Result<NetDevice> {
        let finder = Finder {
            found: KBox::pin_init(LevelLock::new(None), GFP_KERNEL)?,
        };
        let notifier = Notifier::register(finder, cx, sleepable)?;
        let found = cx.lock(&notifier.target().found).take();
        found.ok_or(ENODEV)
    }

    /// Checks and counts what arrives, until `left` bytes have.
    #[pin_data]
    struct Sink {
        left: Atomic<i64>,
        datagrams: Atomic<i32>,
        /// How often datagrams had never left the kernel.
        as_sent: Atomic<i32>,
        wrong: Atomic<i32>,
        from: SocketAddr,
        #[pin]
        done: Completion,
    }

    impl Receive for Sink {
        fn receive(&self, packet: Skb, from: SocketAddr, _cx: Cx<'_, Unlocked>, _irqs: IrqsOn<'_>) {
            let len = packet.len();
            let count = len.div_ceil(packet.datagram_len().max(1));
            let good = packet
                .contiguous()
                .is_some_and(|data| data.iter().enumerate().all(|(i, &byte)| byte == i as u8))
                && from.ip() == self.from.ip();
            if !good {
                self.wrong.add(1, Relaxed);
            }
            self.datagrams.add(count as i32, Relaxed);
            self.as_sent.add(i32::from(packet.is_as_sent()), Relaxed);
            if self.left.fetch_sub(len as i64, Full) == len as i64 {
                self.done.complete_all();
            }
            packet.consume();
        }
    }

    /// `count` times the numbers from zero to `size`, modulo 256.
    fn fill(mut packet: Skb, size: usize, count: usize) -> Result<Skb> {
        for _ in 0..count {
            let numbers = |tail: &mut Tail<'_>| (0..size).try_for_each(|i| tail.write(&[i as u8]));
            packet.append_with(size, numbers).ok_or(ENOMEM)?;
        }
        assert!(packet.append(&[0; 1 << 16]).is_none());
        assert!(packet.append_with(1 << 16, |_| Some(())).is_none());
        Ok(packet)
    }

    fn packet(size: usize, count: usize) -> Result<Skb> {
        fill(Skb::alloc(size * count)?, size, count)
    }

    fn echo(version: Version, address: IpAddr) -> Result {
        let (mut cx, sleepable) = test_context();
        let lo = loopback(&mut cx, sleepable)?;
        assert!(lo.is_up());
        assert!(lo.ifindex() > 0);
        assert!(lo.name().as_bytes() == b"lo");
        let sink = Arc::pin_init(
            pin_init!(Sink {
                left: Atomic::new(100 + 4096 + 16 * 1024 + 200 + 4 * 1024),
                datagrams: Atomic::new(0),
                as_sent: Atomic::new(0),
                wrong: Atomic::new(0),
                from: SocketAddr::new(address, 0),
                done <- Completion::new(),
            }),
            GFP_KERNEL,
        )?;
        let socket = UdpSocket::open(&lo, version, 0, true, sink.clone(), &mut cx, sleepable)?;
        let path = Path::new(SocketAddr::new(address, socket.port()), 64, Some(&lo))?;
        let irqs = sleepable.irqs_on();
        socket.send(packet(100, 1)?, &path, &mut cx, irqs)?;
        socket.send(packet(4096, 1)?, &path, &mut cx, irqs)?;
        let mut batch = packet(1024, 16)?;
        assert!(batch.segment(0).is_none());
        assert!(batch.segment(100_000).is_none());
        assert!(batch.segment(1024).is_some());
        socket.send(batch, &path, &mut cx, irqs)?;
        let pooled = |size, count| fill(socket.pool().alloc(size * count, irqs)?, size, count);
        socket.send(pooled(200, 1)?, &path, &mut cx, irqs)?;
        let mut batch = pooled(1024, 4)?;
        assert!(batch.segment(1024).is_some());
        socket.send(batch, &path, &mut cx, irqs)?;
        sink.done.wait_for_completion();
        assert_eq!(sink.datagrams.load(Relaxed), 23);
        assert_eq!(sink.as_sent.load(Relaxed), 2);
        assert_eq!(sink.wrong.load(Relaxed), 0);
        socket.close(&mut cx, sleepable);
        assert!(Arc::into_unique_or_drop(sink).is_some());
        Ok(())
    }

    #[test]
    fn ipv4() -> Result {
        echo(Version::V4, IpAddr::V4(Ipv4Addr::LOCALHOST))
    }

    #[test]
    fn ipv6() -> Result {
        echo(Version::V6, IpAddr::V6(Ipv6Addr::LOCALHOST))
    }

    #[test]
    fn no_route() -> Result {
        let (mut cx, sleepable) = test_context();
        let lo = loopback(&mut cx, sleepable)?;
        let sink = Arc::pin_init(
            pin_init!(Sink {
                left: Atomic::new(1),
                datagrams: Atomic::new(0),
                as_sent: Atomic::new(0),
                wrong: Atomic::new(0),
                from: SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0),
                done <- Completion::new(),
            }),
            GFP_KERNEL,
        )?;
        let socket = UdpSocket::open(&lo, Version::V6, 0, false, sink, &mut cx, sleepable)?;
        let nowhere = IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1));
        let path = Path::new(SocketAddr::new(nowhere, 9), 64, None)?;
        let sent = socket.send(packet(10, 1)?, &path, &mut cx, sleepable.irqs_on());
        assert!(sent.is_err());
        Ok(())
    }
}
