// SPDX-License-Identifier: GPL-2.0

//! UDP sockets of the kernel.
//!
//! C header: [`include/net/udp_tunnel.h`](srctree/include/net/udp_tunnel.h)

use super::backlog::{
    Backlog,
    Serve, //
};
use super::lane::Lanes;
use super::{
    addr,
    NetDevice,
    Path,
    Received,
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
use kernel::cpu::CpuId;
use kernel::error::to_result;
use kernel::prelude::*;
use kernel::sync::Arc;

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
    /// Takes what has come, in a softirq. What is left is dropped.
    ///
    /// One call at a time for each socket.
    fn receive(&self, arrivals: &mut Arrivals<'_>, cx: Cx<'_, Unlocked>, irqs: IrqsOn<'_>);

    /// So many datagrams that were left to [another processor](UdpSocket::send_from) could not be sent.
    fn unsent(&self, _datagrams: usize) {}
}

/// Where a datagram is from, and where it went.
#[derive(Clone, Copy, Debug)]
pub struct Ends {
    /// The address and port of the sender.
    pub from: SocketAddr,
    /// Those of this host that it was sent to.
    pub to: SocketAddr,
    /// Whether it was sent to this host, and not to several.
    pub alone: bool,
}

/// What has come to a socket, in the order of arrival: datagrams without their UDP headers, or batches of datagrams,
/// and the ends of the way of each.
///
/// # Invariants
///
/// `sk` is a live socket.
pub struct Arrivals<'a> {
    sk: NonNull<bindings::sock>,
    /// The one of the socket.
    pub pool: &'a SkbPool,
    /// So many are still to be taken, whether they are there or not. One that stays in the queue would be taken in place
    /// of one that comes later, and so on for ever.
    left: u32,
}

impl Iterator for Arrivals<'_> {
    type Item = (Received, Ends);

    /// The next one whose checksum is right.
    fn next(&mut self) -> Option<Self::Item> {
        while let Some(left) = self.left.checked_sub(1) {
            self.left = left;
            let mut from = sib_bindings::sib_udp_address::default();
            let mut to = sib_bindings::sib_udp_address::default();
            // SAFETY: The socket is live by the invariant; both addresses are valid for writes.
            let skb =
                unsafe { sib_bindings::sib_helper_udp_take(self.sk.as_ptr(), &mut from, &mut to) };
            if let Some(skb) = NonNull::new(skb) {
                // SAFETY: The queue of the socket has given its reference away. Who else has the data only reads them.
                let packet = unsafe { Received::from_raw(skb) };
                let ends = Ends {
                    from: addr::from_c(&from),
                    to: addr::from_c(&to),
                    alone: !to.of_many,
                };
                return Some((packet, ends));
            }
        }
        None
    }
}

/// What the C socket points to. Datagrams are handed on in the order of the socket's queue.
///
/// # Invariants
///
/// `sk` is the socket that points to the backlog of this.
#[pin_data]
struct Hook<A> {
    target: A,
    sk: NonNull<bindings::sock>,
    pool: SkbPool,
}

// SAFETY: Taking from the queue of a socket is thread-safe; the target is shared.
unsafe impl<A: Anchor> Serve for Hook<A>
where
    <A as Deref>::Target: Receive + Sized,
{
    unsafe fn serve(&self, count: u32) {
        // SAFETY: A softirq is entered with no lock held; what it interrupts has them with interrupts off (see
        // `rdma::sync::Off`). The code in between is the network stack's, or the work queue's.
        let cx = unsafe { Cx::root() };
        // SAFETY: Softirqs run with interrupts on.
        let irqs = unsafe { IrqsOn::new() };
        // INVARIANT: The socket is live by the invariant of the hook.
        let mut arrivals = Arrivals {
            sk: self.sk,
            pool: &self.pool,
            left: count,
        };
        self.target.receive(&mut arrivals, cx, irqs);
        // So many are not due any more, and so none of them may stay in the queue.
        arrivals.for_each(drop);
    }
}

/// A hook that stays where it is, with what it has to hand on.
type PinnedHook<A> = Pin<KBox<Backlog<Hook<A>>>>;

/// What the UDP code calls when it has put a datagram, or a batch of datagrams, into the queue.
///
/// # Safety
///
/// `sk` is a socket that points to such a backlog, or to nothing. The caller holds the RCU read lock, in a softirq.
unsafe extern "C" fn announce<A: Anchor>(sk: *mut bindings::sock)
where
    <A as Deref>::Target: Receive + Sized,
{
    // SAFETY: Under the RCU read lock by the promise above.
    let hook = unsafe { sib_bindings::sib_helper_udp_user_data(sk) };
    // SAFETY: A socket points to its hook until that is about to go, and a grace period longer.
    if let Some(hook) = unsafe { hook.cast::<Backlog<Hook<A>>>().as_ref() } {
        if hook.add(CpuId::current()) {
            // SAFETY: In a softirq; nobody was at it. The socket outlives the grace period as the hook does.
            unsafe { hook.gather() };
        }
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
/// passed, and its backlog has ended.
pub struct UdpSocket<A: Anchor>
where
    <A as Deref>::Target: Receive + Sized,
{
    sk: NonNull<bindings::sock>,
    hook: NonNull<Backlog<Hook<A>>>,
    lanes: Lanes<<A as Deref>::Target>,
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
    /// A namespace that goes waits until the socket is closed, be the device in it still or not: who opens one has the
    /// notifier of [`DeviceEvent::Unregister`](super::DeviceEvent::Unregister) close it, or wait for that.
    ///
    /// `bound` restricts it to datagrams that come in by `device`: several such sockets can share a `port`.
    /// Port zero stands for any free one.
    ///
    /// # Errors
    ///
    /// `EADDRINUSE` when the port is taken, `EAFNOSUPPORT` when the version of IP is not available, `ENODEV` if the
    /// namespace goes, or there is no [`Notifier`](super::Notifier).
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
        let ifindex = if bound { device.ifindex() } else { 0 };
        let mut sk = core::ptr::null_mut();
        // SAFETY: The device is live; `sk` is valid for the result.
        to_result(unsafe {
            sib_bindings::sib_helper_udp_open(
                device.as_ptr(),
                version,
                port,
                ifindex as c_int,
                &mut sk,
            )
        })?;
        let sk = NonNull::new(sk).ok_or(ENOMEM)?;
        let made = Self::equip(target, sk);
        let (hook, lanes) = made.inspect_err(|_| {
            // SAFETY: Fresh and ours.
            unsafe { sib_bindings::sib_helper_udp_close(sk.as_ptr()) };
        })?;
        // SAFETY: It is not moved out: `drop` makes a pinned box of it again.
        let hook = NonNull::from(KBox::leak(unsafe { Pin::into_inner_unchecked(hook) }));
        // SAFETY: The socket is fresh. The hook lives until the socket no longer points to it and a grace period
        // has passed, see `drop`.
        unsafe {
            sib_bindings::sib_helper_udp_start(
                sk.as_ptr(),
                hook.as_ptr().cast(),
                Some(announce::<A>),
            )
        };
        // INVARIANT: All are fresh and given to nobody else.
        Ok(Self { sk, hook, lanes })
    }

    /// Makes what a socket `sk` has for both directions. The hook has to outlive the lanes.
    fn equip(
        target: A,
        sk: NonNull<bindings::sock>,
    ) -> Result<(PinnedHook<A>, Lanes<<A as Deref>::Target>)> {
        let pool = SkbPool::new()?;
        // INVARIANT: The caller lets the socket point to this.
        let hook = pin_init!(Hook { target, sk, pool });
        let hook = KBox::pin_init(Backlog::new(hook), GFP_KERNEL)?;
        let target = NonNull::from(&*hook.of.target);
        // SAFETY: The socket is live, and stays so until the lanes are closed, as does the target, which is in place: the
        // hook has it.
        let lanes = unsafe { Lanes::new(sk, target) }?;
        Ok((hook, lanes))
    }

    /// The port that the socket is bound to.
    pub fn port(&self) -> u16 {
        // SAFETY: Live by the invariant.
        unsafe { sib_bindings::sib_helper_udp_local_port(self.sk.as_ptr()) }
    }

    /// Where packets are best allocated.
    #[inline]
    pub fn pool(&self) -> &SkbPool {
        // SAFETY: The hook is ours by the invariant, and only ever shared.
        unsafe { &self.hook.as_ref().of.pool }
    }

    /// Sends `packet` along `path`, without sleeping.
    ///
    /// # Errors
    ///
    /// `ENETUNREACH` when there is no route, `EADDRNOTAVAIL` to all nodes of a link without an address of it. As with any
    /// datagram, success does not mean arrival.
    #[inline]
    pub fn send(
        &self,
        packet: Skb,
        path: &Path,
        _cx: &mut Cx<'_, Unlocked>,
        _irqs: IrqsOn<'_>,
    ) -> Result {
        // SAFETY: The socket is live by the invariant. No lock of the hierarchy is held and interrupts were on at
        // entry, so they are on.
        unsafe { path.send(self.sk, packet) }
    }

    /// Has `cpu` send `packet` along `path`, soon: it comes after those that were given to `cpu` before, whichever
    /// processor gives it.
    ///
    /// If it cannot be sent then, [`Receive::unsent`] is called.
    ///
    /// # Errors
    ///
    /// `EAGAIN` if too many wait there.
    #[inline]
    pub fn send_from(
        &self,
        cpu: CpuId,
        packet: Skb,
        path: Arc<Path>,
        cx: &mut Cx<'_, Unlocked>,
        irqs: IrqsOn<'_>,
    ) -> Result {
        irqs.undisturbed(cx, |_, _| self.leave_to(cpu, packet, path))
    }

    /// Gives a packet to `cpu`, on whatever processor this runs.
    #[inline]
    fn leave_to(&self, cpu: CpuId, packet: Skb, path: Arc<Path>) -> Result {
        self.lanes.add(cpu, packet, path)
    }

    /// Whether packets wait for `cpu` to send them.
    pub fn is_waited_for(&self, cpu: CpuId) -> bool {
        self.lanes.has_waiting(cpu)
    }

    /// Ends reception and closes the socket. After the return no hook runs, and nothing is sent.
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
        // This is quick while somebody holds the lock of the network stack, who may wait for this.
        // SAFETY: Callable in a task. After it nobody announces anything any more.
        unsafe { sib_bindings::synchronize_net() };
        // SAFETY: The hook is ours by the invariant.
        unsafe { self.hook.as_ref() }.end();
        self.lanes.close();
        // SAFETY: Live and ours by the invariant, and in use by nobody else.
        unsafe { sib_bindings::sib_helper_udp_close(self.sk.as_ptr()) };
        // SAFETY: The hook is ours by the invariant, was pinned, and nobody uses it any more.
        drop(unsafe { Pin::new_unchecked(KBox::from_raw(self.hook.as_ptr())) });
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
    use crate::time::now_ns;
    use crate::work::other_cpu;
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
    use kernel::sync::Completion;
    use kernel::time::Delta;

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
        fn receive(&self, arrivals: &mut Arrivals<'_>, _: Cx<'_, Unlocked>, _: IrqsOn<'_>) {
            arrivals.for_each(|(packet, ends)| self.take(packet, ends));
        }
    }

    impl Sink {
        fn take(&self, packet: Received, ends: Ends) {
            let len = packet.len();
            let count = packet.datagrams();
            let good = packet
                .contiguous()
                .is_some_and(|data| data.iter().enumerate().all(|(i, &byte)| byte == i as u8))
                && ends.from == ends.to
                && ends.from.ip() == self.from.ip();
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
        let pooled = |size, count, cx: &mut Cx<'_, Unlocked>| {
            fill(socket.pool().alloc(size * count, cx, irqs)?, size, count)
        };
        let packet = pooled(200, 1, &mut cx)?;
        socket.send(packet, &path, &mut cx, irqs)?;
        let mut batch = pooled(1024, 4, &mut cx)?;
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

    /// Counts numbered datagrams, and those that do not come in their turn, until `left` have come.
    #[pin_data]
    struct Turns {
        next: Atomic<u32>,
        early: Atomic<i32>,
        left: Atomic<i64>,
        #[pin]
        done: Completion,
    }

    impl Turns {
        fn new(left: i64) -> Result<Arc<Self>> {
            Arc::pin_init(
                pin_init!(Self {
                    next: Atomic::new(0),
                    early: Atomic::new(0),
                    left: Atomic::new(left),
                    done <- Completion::new(),
                }),
                GFP_KERNEL,
            )
        }
    }

    impl Receive for Turns {
        fn receive(&self, arrivals: &mut Arrivals<'_>, _: Cx<'_, Unlocked>, _: IrqsOn<'_>) {
            arrivals.for_each(|(packet, _)| self.take(packet));
        }
    }

    impl Turns {
        fn take(&self, packet: Received) {
            let number = packet.contiguous().and_then(|data| data.try_into().ok());
            let turn = self.next.fetch_add(1, Full);
            if number.map(u32::from_le_bytes) != Some(turn) {
                self.early.add(1, Relaxed);
            }
            if self.left.fetch_sub(1, Full) == 1 {
                self.done.complete_all();
            }
            packet.consume();
        }
    }

    fn numbered(number: u32) -> Result<Skb> {
        let mut packet = Skb::alloc(4)?;
        packet.append(&number.to_le_bytes()).ok_or(ENOMEM)?;
        Ok(packet)
    }

    const MANY: u32 = 2000;

    #[test]
    fn another_processor_sends_in_order() -> Result {
        let (mut cx, sleepable) = test_context();
        let lo = loopback(&mut cx, sleepable)?;
        let turns = Turns::new(MANY.into())?;
        let socket = UdpSocket::open(&lo, Version::V4, 0, true, turns.clone(), &mut cx, sleepable)?;
        let to = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), socket.port());
        let path = Arc::new(Path::new(to, 64, Some(&lo))?, GFP_KERNEL)?;
        let cpu = other_cpu().unwrap_or(CpuId::current());
        let irqs = sleepable.irqs_on();
        let mut number = 0;
        while number < MANY {
            let sent = socket.send_from(cpu, numbered(number)?, path.clone(), &mut cx, irqs);
            if sent == Err(EAGAIN) {
                sleepable.pause(&mut cx, Delta::from_millis(1));
                continue;
            }
            sent?;
            number = number.saturating_add(1);
        }
        turns.done.wait_for_completion();
        assert_eq!(turns.early.load(Relaxed), 0);
        socket.close(&mut cx, sleepable);
        assert!(Arc::into_unique_or_drop(path).is_some());
        assert!(Arc::into_unique_or_drop(turns).is_some());
        Ok(())
    }

    /// Takes its time for what comes, and notes how much came in one go at most.
    #[pin_data]
    struct Crowd {
        most: Atomic<u32>,
        left: Atomic<i64>,
        #[pin]
        done: Completion,
    }

    /// Much longer than the network layer takes from one datagram to the next.
    const SLOW_NS: u64 = 2_000_000;

    impl Receive for Crowd {
        fn receive(&self, arrivals: &mut Arrivals<'_>, _: Cx<'_, Unlocked>, _: IrqsOn<'_>) {
            let end = now_ns().saturating_add(SLOW_NS);
            while now_ns() < end {
                core::hint::spin_loop();
            }
            let count = arrivals.map(|(packet, _)| packet.consume()).count();
            let most = self.most.load(Relaxed).max(count as u32);
            self.most.store(most, Relaxed);
            if self.left.fetch_sub(count as i64, Full) == count as i64 {
                self.done.complete_all();
            }
        }
    }

    #[test]
    fn what_follows_at_once_is_taken_in_one_go() -> Result {
        let (mut cx, sleepable) = test_context();
        let lo = loopback(&mut cx, sleepable)?;
        let crowd = Arc::pin_init(
            pin_init!(Crowd {
                most: Atomic::new(0),
                left: Atomic::new(4),
                done <- Completion::new(),
            }),
            GFP_KERNEL,
        )?;
        let socket = UdpSocket::open(&lo, Version::V4, 0, true, crowd.clone(), &mut cx, sleepable)?;
        let to = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), socket.port());
        let path = Path::new(to, 64, Some(&lo))?;
        let irqs = sleepable.irqs_on();
        // Nothing is received until all are sent.
        irqs.undisturbed(&mut cx, |cx, irqs| -> Result {
            (0..4).try_for_each(|number| socket.send(numbered(number)?, &path, cx, irqs))
        })?;
        crowd.done.wait_for_completion();
        // Three, unless this processor stands still between the first one and the second.
        assert!(crowd.most.load(Relaxed) > 1);
        socket.close(&mut cx, sleepable);
        assert!(Arc::into_unique_or_drop(crowd).is_some());
        Ok(())
    }

    /// What another processor has not sent yet goes with the socket.
    #[test]
    fn closed_while_another_processor_sends() -> Result {
        let (mut cx, sleepable) = test_context();
        let lo = loopback(&mut cx, sleepable)?;
        let nowhere = Turns::new(i64::MAX)?;
        let irqs = sleepable.irqs_on();
        for round in 0..20 {
            let socket = UdpSocket::open(
                &lo,
                Version::V4,
                0,
                true,
                nowhere.clone(),
                &mut cx,
                sleepable,
            )?;
            let to = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), socket.port());
            let path = Arc::new(Path::new(to, 64, Some(&lo))?, GFP_KERNEL)?;
            let cpu = other_cpu().unwrap_or(CpuId::current());
            for number in 0..round * 10 {
                socket.send_from(cpu, numbered(number)?, path.clone(), &mut cx, irqs)?;
            }
            socket.close(&mut cx, sleepable);
            assert!(Arc::into_unique_or_drop(path).is_some());
        }
        assert!(Arc::into_unique_or_drop(nowhere).is_some());
        Ok(())
    }

    /// Counts what another processor could not send.
    #[pin_data]
    struct Losses {
        left: Atomic<i64>,
        #[pin]
        done: Completion,
    }

    impl Receive for Losses {
        fn receive(&self, _: &mut Arrivals<'_>, _: Cx<'_, Unlocked>, _: IrqsOn<'_>) {}

        fn unsent(&self, datagrams: usize) {
            if self.left.fetch_sub(datagrams as i64, Full) == datagrams as i64 {
                self.done.complete_all();
            }
        }
    }

    #[test]
    fn another_processor_has_no_route() -> Result {
        let (mut cx, sleepable) = test_context();
        let lo = loopback(&mut cx, sleepable)?;
        let losses = Arc::pin_init(
            pin_init!(Losses {
                left: Atomic::new(1 + 16),
                done <- Completion::new(),
            }),
            GFP_KERNEL,
        )?;
        let socket = UdpSocket::open(
            &lo,
            Version::V6,
            0,
            false,
            losses.clone(),
            &mut cx,
            sleepable,
        )?;
        let nowhere = IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1));
        let path = Arc::new(
            Path::new(SocketAddr::new(nowhere, 9), 64, None)?,
            GFP_KERNEL,
        )?;
        let cpu = other_cpu().unwrap_or(CpuId::current());
        let irqs = sleepable.irqs_on();
        socket.send_from(cpu, packet(10, 1)?, path.clone(), &mut cx, irqs)?;
        let mut batch = packet(1024, 16)?;
        assert!(batch.segment(1024).is_some());
        socket.send_from(cpu, batch, path, &mut cx, irqs)?;
        losses.done.wait_for_completion();
        socket.close(&mut cx, sleepable);
        assert_eq!(losses.left.load(Relaxed), 0);
        Ok(())
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
