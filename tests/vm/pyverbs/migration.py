#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Automatic path migration by pyverbs as Debian ships it, between two HCAs of two ports each.

    migration.py DEVICE DEVICE

The paths by the first ports are cut in debugfs (see Documentation/observing.rst), at the
second device.
"""

import sys
import time
import unittest

import pyverbs.enums as e
from pyverbs.addr import AHAttr
from pyverbs.cq import CQ
from pyverbs.device import Context
from pyverbs.mr import MR
from pyverbs.pd import PD
from pyverbs.pyverbs_error import PyverbsRDMAError
from pyverbs.qp import QP, QPAttr, QPCap, QPInitAttr
from pyverbs.wr import SGE, RecvWR, SendWR

# Seconds that anything may take.
DUE = 60
BYTES = 8192
PSN = 0x123456
# 67 ms, and 134 ms.
TIMEOUT, ALT_TIMEOUT = 14, 15

# What path_mig_state is (enum ibv_mig_state).
MIGRATED, REARM, ARMED = 0, 1, 2

PATH = e.IBV_QP_ALT_PATH | e.IBV_QP_PATH_MIG_STATE


class Side:
    """A device with a queue pair, and its memory: what it sends, then what it receives."""

    def __init__(self, name):
        self.name = name
        self.context = Context(name=name)
        self.pd = PD(self.context)
        self.cq = CQ(self.context, 32)
        access = e.IBV_ACCESS_LOCAL_WRITE | e.IBV_ACCESS_REMOTE_WRITE | e.IBV_ACCESS_REMOTE_READ
        self.mr = MR(self.pd, 2 * BYTES, access)
        cap = QPCap(max_send_wr=8, max_recv_wr=8, max_send_sge=1, max_recv_sge=1)
        self.qp = QP(self.pd, QPInitAttr(qp_type=e.IBV_QPT_RC, scq=self.cq, rcq=self.cq, cap=cap, sq_sig_all=1))

    def lid(self, port):
        return self.context.query_port(port).lid

    def query(self):
        return self.qp.query(e.IBV_QP_STATE | e.IBV_QP_AV | PATH)[0]

    def connect(self, peer):
        access = e.IBV_ACCESS_REMOTE_WRITE | e.IBV_ACCESS_REMOTE_READ
        attr = QPAttr(port_num=1)
        attr.qp_access_flags = access
        self.qp.modify(attr, e.IBV_QP_STATE | e.IBV_QP_PKEY_INDEX | e.IBV_QP_PORT | e.IBV_QP_ACCESS_FLAGS)
        attr.qp_state = e.IBV_QPS_RTR
        attr.ah_attr = AHAttr(dlid=peer.lid(1), port_num=1)
        attr.path_mtu = e.IBV_MTU_2048
        attr.dest_qp_num = peer.qp.qp_num
        attr.rq_psn = PSN
        attr.max_dest_rd_atomic = 4
        attr.min_rnr_timer = 1
        self.qp.modify(
            attr,
            e.IBV_QP_STATE
            | e.IBV_QP_AV
            | e.IBV_QP_PATH_MTU
            | e.IBV_QP_DEST_QPN
            | e.IBV_QP_RQ_PSN
            | e.IBV_QP_MAX_DEST_RD_ATOMIC
            | e.IBV_QP_MIN_RNR_TIMER,
        )
        attr.qp_state = e.IBV_QPS_RTS
        attr.sq_psn = PSN
        attr.timeout = TIMEOUT
        attr.retry_cnt = 7
        attr.rnr_retry = 7
        attr.max_rd_atomic = 4
        self.qp.modify(
            attr,
            e.IBV_QP_STATE
            | e.IBV_QP_SQ_PSN
            | e.IBV_QP_TIMEOUT
            | e.IBV_QP_RETRY_CNT
            | e.IBV_QP_RNR_RETRY
            | e.IBV_QP_MAX_QP_RD_ATOMIC,
        )

    def path(self, peer, port):
        """What loads the path by these ports of both as the alternate one."""
        attr = QPAttr(qp_state=e.IBV_QPS_RTS)
        attr.alt_ah_attr = AHAttr(dlid=peer.lid(port), port_num=port)
        attr.alt_port_num = port
        attr.alt_pkey_index = 0
        attr.alt_timeout = ALT_TIMEOUT
        attr.path_mig_state = REARM
        return attr

    def order(self, state):
        attr = QPAttr(qp_state=e.IBV_QPS_RTS)
        attr.path_mig_state = state
        self.qp.modify(attr, e.IBV_QP_STATE | e.IBV_QP_PATH_MIG_STATE)

    def hears(self, event):
        """Waits for an asynchronous event; there are others of ports."""
        while True:
            got = self.context.get_async_event()
            got.ack()
            if got.event_type == event:
                return

    def completions(self, count):
        due = time.monotonic() + DUE
        done = []
        while len(done) < count:
            _, some = self.cq.poll(count - len(done))
            done += some
            if time.monotonic() > due:
                raise TimeoutError(f"{len(done)} completions of {count}")
        return done

    def faults(self, port, rule):
        with open(f"/sys/kernel/debug/sib/{self.name}/{port}/faults", "w") as file:
            file.write(rule)


class Migration(unittest.TestCase):
    """Each test has two connected queue pairs, of which each byte is looked at."""

    def setUp(self):
        self.sides = [Side(name) for name in DEVICES]
        near, far = self.sides
        near.connect(far)
        far.connect(near)
        self.seed = 0
        self.talk()

    def tearDown(self):
        for port in (1, 2):
            self.sides[1].faults(port, "clear")
        for side in self.sides:
            side.context.close()

    def message(self, sender, receiver, while_it_is_under_way=lambda: None):
        self.seed += 1
        text = bytes((self.seed + i) % 251 for i in range(BYTES))
        sender.mr.write(text, BYTES)
        receiver.mr.write(bytes(BYTES), BYTES, BYTES)
        receiver.qp.post_recv(RecvWR(num_sge=1, sg=[SGE(receiver.mr.buf + BYTES, BYTES, receiver.mr.lkey)]))
        sender.qp.post_send(SendWR(num_sge=1, sg=[SGE(sender.mr.buf, BYTES, sender.mr.lkey)]))
        while_it_is_under_way()
        for side in (sender, receiver):
            (wc,) = side.completions(1)
            self.assertEqual(wc.status, e.IBV_WC_SUCCESS)
        self.assertEqual(receiver.mr.read(BYTES, BYTES), text)

    def talk(self):
        near, far = self.sides
        for _ in range(2):
            self.message(near, far)
            self.message(far, near)

    def is_in(self, state):
        due = time.monotonic() + DUE
        while any(side.query().path_mig_state != state for side in self.sides):
            self.assertLess(time.monotonic(), due, f"not both are in state {state}")

    def load(self, port):
        for side, peer in (self.sides, self.sides[::-1]):
            side.qp.modify(side.path(peer, port), e.IBV_QP_STATE | PATH)
        self.is_in(ARMED)
        for side, peer in (self.sides, self.sides[::-1]):
            attr = side.query()
            self.assertEqual(attr.alt_port_num, port)
            self.assertEqual(attr.alt_ah_attr.dlid, peer.lid(port))
            self.assertEqual(attr.alt_timeout, ALT_TIMEOUT)
            self.assertEqual(attr.port_num, 3 - port)
            self.assertEqual(attr.ah_attr.dlid, peer.lid(3 - port))

    def went_to(self, port):
        self.is_in(MIGRATED)
        for side, peer in (self.sides, self.sides[::-1]):
            side.hears(e.IBV_EVENT_PATH_MIG)
            attr = side.query()
            self.assertEqual(attr.port_num, port)
            self.assertEqual(attr.ah_attr.port_num, port)
            self.assertEqual(attr.ah_attr.dlid, peer.lid(port))
            self.assertEqual(attr.timeout, ALT_TIMEOUT)
            self.assertEqual(attr.alt_port_num, 0)
        self.talk()

    def test_by_order(self):
        for mover, port in ((0, 2), (1, 1)):
            self.load(port)
            self.talk()
            self.sides[mover].order(MIGRATED)
            self.went_to(port)

    def test_by_silence(self):
        near, far = self.sides
        self.load(2)
        far.faults(1, "cut in")
        self.message(near, far)
        self.went_to(2)
        far.faults(1, "clear")
        # And back, when the cut comes while something is under way, and from the other side.
        self.load(1)
        self.message(far, near, lambda: far.faults(2, "cut out"))
        far.faults(2, "cut out")
        self.message(far, near)
        self.went_to(1)

    def test_refused(self):
        near, far = self.sides
        for state in (REARM, ARMED):
            with self.assertRaises(PyverbsRDMAError):
                near.order(state)
        near.order(MIGRATED)
        attr = near.path(far, 2)
        attr.alt_ah_attr = AHAttr(dlid=far.lid(2), port_num=3)
        attr.alt_port_num = 3
        with self.assertRaises(PyverbsRDMAError):
            near.qp.modify(attr, e.IBV_QP_STATE | PATH)
        self.assertEqual(near.query().alt_port_num, 0)
        self.assertEqual(near.query().path_mig_state, MIGRATED)
        self.load(2)
        with self.assertRaises(PyverbsRDMAError):
            near.order(REARM)
        self.is_in(ARMED)


if __name__ == "__main__":
    DEVICES = sys.argv[1:3]
    unittest.main(argv=sys.argv[:1], verbosity=2)
