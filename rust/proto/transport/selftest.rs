// SPDX-License-Identifier: GPL-2.0

//! Two queue pairs back to back, packet by packet: what can be tested in the kernel as well, without memory of
//! its own. The simulator in `tests/host` does the rest.

#[cfg(any(test, CONFIG_KUNIT = "y"))]
#[cfg_attr(CONFIG_KUNIT = "y", kernel::macros::kunit_tests(sib_proto_qp))]
mod tests {
    use crate::time::Instant;
    use crate::transport::*;
    use core::ops::{
        Deref,
        DerefMut, //
    };
    use wire::aeth::{
        NakCode,
        Syndrome, //
    };
    use wire::feth::{
        self,
        Feth,
        Selectivity, //
    };
    use wire::grh::Grh;
    use wire::header::Header;
    use wire::opcode::Operation;
    use wire::{
        Key,
        Lid,
        Mtu,
        PKey,
        PortNum,
        Psn,
        Qpn,
        Vl, //
    };

    const SENDS: usize = 4;
    const FETCHES: usize = 2;
    const BYTES: usize = 700;
    const KEY: Key = Key::new(0x77);
    const MTU: Mtu = Mtu::B256;
    const FIRST_PSN: u32 = 0xff_fffe;
    const NO_WC: Option<(u64, WcStatus)> = None;

    /// Surroundings with one buffer that serves as the memory of everything.
    struct Small {
        memory: [u8; BYTES],
        /// The first byte of the packet; each one after it is one more.
        packet: u8,
        recvs: u32,
        sent: [Option<(u64, WcStatus)>; SENDS],
        received: [Option<(u64, WcStatus)>; SENDS],
        counter: u64,
        result: Option<u64>,
        event: Option<QpEvent>,
    }

    fn note(list: &mut [Option<(u64, WcStatus)>], wc: &Wc) {
        if let Some(free) = list.iter_mut().find(|entry| entry.is_none()) {
            *free = Some((wc.wr_id, wc.status));
        }
    }

    impl Small {
        fn new() -> Self {
            Self {
                memory: [0; BYTES],
                packet: 0,
                recvs: 0,
                sent: [NO_WC; SENDS],
                received: [NO_WC; SENDS],
                counter: 0,
                result: None,
                event: None,
            }
        }

        fn place(&mut self, offset: u32, len: u32) {
            let to = self.memory.iter_mut().skip(offset as usize);
            for (i, to) in to.take(len as usize).enumerate() {
                *to = self.packet.wrapping_add(i as u8);
            }
        }
    }

    impl Env for Small {
        fn in_port(&mut self) -> PortNum {
            PortNum::default()
        }
        fn take_recv(&mut self) -> Option<RecvWqe> {
            self.recvs = self.recvs.checked_sub(1)?;
            Some(RecvWqe {
                slot: RecvSlot(0),
                wr_id: 100,
                len: BYTES as u32,
            })
        }
        fn recv_count(&mut self) -> u32 {
            self.recvs
        }
        fn place_recv(&mut self, _: RecvSlot, offset: u32, len: u32) -> Result<(), PlaceError> {
            self.place(offset, len);
            Ok(())
        }
        fn place_grh(&mut self, _: RecvSlot, _: Option<&Grh>) -> Result<(), PlaceError> {
            Ok(())
        }
        fn check_remote(
            &mut self,
            rkey: Key,
            va: u64,
            len: u32,
            _: Access,
        ) -> Result<(), RemoteFault> {
            let inside = va.saturating_add(u64::from(len)) <= BYTES as u64;
            if rkey == KEY && inside {
                Ok(())
            } else {
                Err(RemoteFault)
            }
        }
        fn place_remote(&mut self, _: Key, va: u64, len: u32) -> Result<(), RemoteError> {
            self.place(va as u32, len);
            Ok(())
        }
        fn atomic(&mut self, _: Key, _: u64, op: AtomicOp) -> Result<u64, RemoteError> {
            let old = self.counter;
            if let AtomicOp::FetchAdd { add } = op {
                self.counter = old.wrapping_add(add);
            }
            Ok(old)
        }
        fn atomic_write(&mut self, _: Key, _: u64) -> Result<(), RemoteError> {
            self.counter = self.counter.wrapping_add(1);
            Ok(())
        }
        fn flush(
            &mut self,
            _: Key,
            _: Option<(u64, u32)>,
            _: Placement,
        ) -> Result<(), RemoteFault> {
            self.counter = self.counter.wrapping_add(1);
            Ok(())
        }
        fn invalidate(&mut self, _: Key) -> Result<(), InvalidateError> {
            Err(InvalidateError::Fault)
        }
        fn place_local(&mut self, _: SendSlot, offset: u32, len: u32) -> Result<(), PlaceError> {
            self.place(offset, len);
            Ok(())
        }
        fn place_local_u64(&mut self, _: SendSlot, value: u64) -> Result<(), PlaceError> {
            self.result = Some(value);
            Ok(())
        }
        fn complete_send(&mut self, wc: Wc) {
            note(&mut self.sent, &wc);
        }
        fn complete_recv(&mut self, _: RecvSlot, wc: Wc) {
            note(&mut self.received, &wc);
        }
        fn event(&mut self, event: QpEvent) {
            self.event = Some(event);
        }
        fn heard(&mut self) {}
    }

    /// Storage that a queue pair owns.
    struct Store<T, const N: usize>([T; N]);

    impl<T, const N: usize> Deref for Store<T, N> {
        type Target = [T];
        fn deref(&self) -> &[T] {
            &self.0
        }
    }

    impl<T, const N: usize> DerefMut for Store<T, N> {
        fn deref_mut(&mut self) -> &mut [T] {
            &mut self.0
        }
    }

    struct Side {
        qp: Qp<Store<SendEntry, SENDS>, Store<Resource, FETCHES>>,
        env: Small,
    }

    const TO_INIT: AttrMask = AttrMask::PKEY_INDEX
        .with(AttrMask::PORT)
        .with(AttrMask::ACCESS_FLAGS);
    const TO_RTR: AttrMask = AttrMask::AV
        .with(AttrMask::PATH_MTU)
        .with(AttrMask::DEST_QPN)
        .with(AttrMask::RQ_PSN)
        .with(AttrMask::MAX_DEST_RD_ATOMIC)
        .with(AttrMask::MIN_RNR_TIMER);
    const TO_RTS: AttrMask = AttrMask::TIMEOUT
        .with(AttrMask::RETRY_CNT)
        .with(AttrMask::RNR_RETRY)
        .with(AttrMask::SQ_PSN)
        .with(AttrMask::MAX_QP_RD_ATOMIC);

    impl Side {
        fn new(number: u16) -> Self {
            let peer = number ^ 1;
            let config = QpConfig {
                qpn: Qpn::new(u32::from(number)),
                dest_qpn: Qpn::new(u32::from(peer)),
                path: PathAv {
                    dlid: Lid::new(peer),
                    ..PathAv::default()
                },
                mtu: MTU,
                pkey: PKey::DEFAULT,
                sq_psn: Psn::new(FIRST_PSN),
                rq_psn: Psn::new(FIRST_PSN),
                timeout: 1,
                retry_cnt: 2,
                rnr_retry: 1,
                min_rnr_timer: 1,
                max_rd_atomic: 2,
                max_dest_rd_atomic: 2,
                max_unacked: 16,
                access: AccessFlags {
                    remote_write: true,
                    remote_read: true,
                    remote_atomic: true,
                    flush_global: true,
                    ..AccessFlags::default()
                },
                ..QpConfig::default()
            };
            let mut side = Self {
                qp: Qp::new(
                    QpType::Rc,
                    Store([SendEntry::default(); SENDS]),
                    Store([Resource::default(); FETCHES]),
                ),
                env: Small::new(),
            };
            for (to, mask) in [
                (QpState::Init, TO_INIT),
                (QpState::Rtr, TO_RTR),
                (QpState::Rts, TO_RTS),
            ] {
                assert_eq!(
                    side.qp
                        .modify(Instant::default(), to, mask, &config, &mut side.env),
                    Ok(())
                );
            }
            side
        }

        fn post(&mut self, wr_id: u64, op: SendOp, length: u32) {
            let posted = self.qp.post_send(SendWqe {
                wr_id,
                op,
                length,
                rkey: KEY,
                swap_add: 5,
                flush: Feth {
                    selectivity: Selectivity::Range as u8,
                    placement: feth::GLOBAL_VISIBILITY,
                },
                flags: SendFlags {
                    signaled: true,
                    ..SendFlags::default()
                },
                ..SendWqe::default()
            });
            assert!(posted.is_ok());
        }

        fn poll(&mut self, now: u64) -> Option<TxSegment> {
            let limits = TxLimits {
                max_payload: 256,
                lid: Lid::new(self.qp.config().qpn.get() as u16),
                lmc: 0,
                mtu: MTU,
            };
            let has_output = self.qp.has_output();
            let segment = self.qp.poll_transmit(Instant::from_nanos(now), &limits);
            assert!(has_output || segment.is_none());
            if segment.is_none() {
                let more = self.qp.transmitted(&mut self.env);
                assert!(!more);
            }
            segment
        }

        /// Receives a segment that `from` sent: a message's byte `n` is `n`.
        fn take(&mut self, now: u64, segment: &TxSegment) -> Result<(), RxDrop> {
            let (offset, len) = match segment.payload {
                Payload::None => (0, 0),
                Payload::Wqe { offset, len, .. } => (offset, len),
                Payload::Remote { va, len, .. } => (va as u32, len),
            };
            self.env.packet = offset as u8;
            let now = Instant::from_nanos(now);
            self.qp
                .on_packet(now, &segment.header, segment.span, len, &mut self.env)
        }

        fn time(&mut self, now: u64) {
            self.qp.on_timeout(Instant::from_nanos(now), &mut self.env);
        }
    }

    /// Lets both sides send until they have nothing more to say, and drops the `lost`th segment.
    fn run(one: &mut Side, two: &mut Side, now: u64, lost: Option<u32>) {
        let mut number = 0;
        for _ in 0..64 {
            for turn in 0..2 {
                let (from, to) = if turn == 0 {
                    (&mut *one, &mut *two)
                } else {
                    (&mut *two, &mut *one)
                };
                if let Some(segment) = from.poll(now) {
                    if lost != Some(number) {
                        let _ = to.take(now, &segment);
                    }
                    number += 1;
                }
            }
        }
    }

    fn is_whole(memory: &[u8; BYTES], len: usize) -> bool {
        let mut bytes = memory.iter().take(len).enumerate();
        bytes.all(|(i, &byte)| byte == i as u8)
    }

    fn syndrome(header: &Header) -> Option<Syndrome> {
        header.aeth.map(|aeth| aeth.syndrome)
    }

    #[test]
    fn a_message_is_cut_acknowledged_and_completed() {
        let mut one = Side::new(2);
        let mut two = Side::new(3);
        two.env.recvs = 1;
        one.post(7, SendOp::Send, 600);
        for (i, (operation, len)) in [
            (Operation::SendFirst, 256),
            (Operation::SendMiddle, 256),
            (Operation::SendLast, 88),
        ]
        .into_iter()
        .enumerate()
        {
            assert!(two.poll(0).is_none());
            let segment = one.poll(0);
            assert!(segment.is_some());
            if let Some(segment) = segment {
                assert_eq!(segment.header.bth.opcode.operation(), operation);
                let psn = Psn::new(FIRST_PSN).add(i as u32);
                assert_eq!(segment.header.bth.psn, psn);
                assert_eq!(segment.payload.len(), len);
                assert_eq!(two.take(0, &segment), Ok(()));
            }
        }
        assert!(one.poll(0).is_none());
        assert_eq!(one.env.sent[0], None);
        let ack = two.poll(0);
        assert!(ack.is_some());
        if let Some(ack) = ack {
            assert_eq!(ack.header.bth.psn, Psn::new(0));
            assert_eq!(ack.header.aeth.map(|aeth| aeth.msn), Some(1));
            assert_eq!(one.take(0, &ack), Ok(()));
        }
        assert_eq!(one.env.sent[0], Some((7, WcStatus::Success)));
        assert_eq!(two.env.received[0], Some((100, WcStatus::Success)));
        assert!(is_whole(&two.env.memory, 600));
        assert_eq!(one.qp.next_deadline(), None);
    }

    #[test]
    fn any_lost_segment_is_repaired() {
        for lost in 0..9 {
            let mut one = Side::new(2);
            let mut two = Side::new(3);
            one.post(0, SendOp::Write, 600);
            one.post(1, SendOp::Read, 600);
            one.post(2, SendOp::FetchAdd, 8);
            run(&mut one, &mut two, 0, Some(lost));
            one.time(1_000_000);
            run(&mut one, &mut two, 1_000_000, None);
            for (wr_id, wc) in one.env.sent.iter().take(3).enumerate() {
                assert_eq!(*wc, Some((wr_id as u64, WcStatus::Success)));
            }
            assert!(is_whole(&two.env.memory, 600));
            assert!(is_whole(&one.env.memory, 600));
            assert_eq!(two.env.counter, 5);
            assert_eq!(one.env.result, Some(0));
        }
    }

    #[test]
    fn a_gap_is_reported_once() {
        let mut one = Side::new(2);
        let mut two = Side::new(3);
        one.post(0, SendOp::Write, 600);
        assert!(one.poll(0).is_some());
        for _ in 0..2 {
            if let Some(late) = one.poll(0) {
                assert_eq!(two.take(0, &late), Err(RxDrop::OutOfSequence));
            }
        }
        let nak = two.poll(0);
        assert!(nak.is_some());
        if let Some(nak) = nak {
            let expected = Syndrome::Nak(NakCode::PsnSequenceError);
            assert_eq!(syndrome(&nak.header), Some(expected));
            assert_eq!(nak.header.bth.psn, Psn::new(FIRST_PSN));
        }
        assert!(two.poll(0).is_none());
    }

    #[test]
    fn a_peer_that_is_not_ready_is_asked_again_after_its_pause() {
        let mut one = Side::new(2);
        let mut two = Side::new(3);
        one.post(0, SendOp::Send, 10);
        run(&mut one, &mut two, 0, None);
        assert_eq!(one.qp.next_deadline(), Some(Instant::from_nanos(10_000)));
        assert!(one.poll(9_999).is_none());
        two.env.recvs = 1;
        run(&mut one, &mut two, 10_000, None);
        assert_eq!(one.env.sent[0], Some((0, WcStatus::Success)));
    }

    #[test]
    fn a_peer_that_is_never_ready_is_given_up() {
        let mut one = Side::new(2);
        let mut two = Side::new(3);
        one.post(0, SendOp::Send, 10);
        one.post(1, SendOp::Write, 10);
        run(&mut one, &mut two, 0, None);
        run(&mut one, &mut two, 10_000, None);
        assert_eq!(one.env.sent[0], Some((0, WcStatus::RnrRetryExcErr)));
        assert_eq!(one.env.sent[1], Some((1, WcStatus::WrFlushErr)));
        assert_eq!(one.qp.state(), QpState::Err);
    }

    #[test]
    fn silence_is_given_up_after_the_retries() {
        let mut one = Side::new(2);
        one.env.recvs = 2;
        one.post(0, SendOp::Write, 10);
        one.post(1, SendOp::Read, 10);
        let mut now = 0;
        for _ in 0..3 {
            while one.poll(now).is_some() {}
            assert_eq!(one.env.sent[0], None);
            now += 8192;
            one.time(now);
        }
        assert_eq!(one.env.sent[0], Some((0, WcStatus::RetryExcErr)));
        assert_eq!(one.env.sent[1], Some((1, WcStatus::WrFlushErr)));
        assert_eq!(one.env.received[1], Some((100, WcStatus::WrFlushErr)));
        assert_eq!(one.qp.next_deadline(), None);
        one.post(2, SendOp::Write, 10);
        assert!(one.poll(now).is_none());
        assert_eq!(one.env.sent[2], Some((2, WcStatus::WrFlushErr)));
    }

    #[test]
    fn a_refusal_is_an_error_on_both_sides() {
        let mut one = Side::new(2);
        let mut two = Side::new(3);
        one.post(0, SendOp::Write, BYTES as u32);
        one.post(1, SendOp::Write, BYTES as u32 + 1);
        run(&mut one, &mut two, 0, None);
        assert_eq!(one.env.sent[0], Some((0, WcStatus::Success)));
        assert_eq!(one.env.sent[1], Some((1, WcStatus::RemAccessErr)));
        assert_eq!(two.env.event, Some(QpEvent::AccessErr));
        assert_eq!(two.qp.state(), QpState::Err);
    }

    #[test]
    fn what_comes_twice_is_executed_once() {
        for (op, counter, result) in [
            (SendOp::FetchAdd, 5, Some(0)),
            (SendOp::AtomicWrite, 1, None),
            (SendOp::Flush, 1, None),
        ] {
            let mut one = Side::new(2);
            let mut two = Side::new(3);
            one.post(0, op, 8);
            if let Some(request) = one.poll(0) {
                assert_eq!(two.take(0, &request), Ok(()));
                assert!(two.poll(0).is_some());
                assert_eq!(two.take(0, &request), Err(RxDrop::Duplicate));
            }
            run(&mut one, &mut two, 0, None);
            assert_eq!(two.env.counter, counter);
            assert_eq!(one.env.result, result);
            assert_eq!(one.env.sent[0], Some((0, WcStatus::Success)));
        }
    }

    #[test]
    fn strangers_are_not_heard() {
        let mut one = Side::new(2);
        let mut two = Side::new(3);
        one.post(0, SendOp::Write, 10);
        if let Some(mut request) = one.poll(0) {
            request.header.lrh.slid = Lid::new(9);
            assert_eq!(two.take(0, &request), Err(RxDrop::Source));
            request.header.lrh.slid = Lid::new(2);
            request.header.grh = Some(Grh::default());
            assert_eq!(two.take(0, &request), Err(RxDrop::Source));
            request.header.grh = None;
            request.header.bth.pkey = PKey::new(0x8001);
            assert_eq!(two.take(0, &request), Err(RxDrop::PKey));
            request.header.bth.pkey = PKey::DEFAULT;
            request.header.lrh.vl = Vl::MANAGEMENT;
            assert_eq!(two.take(0, &request), Err(RxDrop::Source));
            request.header.lrh.vl = Vl::new(0);
            assert_eq!(two.take(0, &request), Ok(()));
        }
    }
}
