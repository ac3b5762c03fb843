package pingpong

import (
	"context"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"net/netip"
	"time"

	"github.com/nfsrdma/nfsrdma/rdma/roce"
)

// The messages that rdma-core's programs exchange over TCP: LID, queue pair, PSN
// and GID in hexadecimal, and a zero byte; then "done" and a zero byte.
const (
	addressFormat = "%04x:%06x:%06x:%032x\x00"
	addressLen    = 4 + 1 + 6 + 1 + 6 + 1 + 32 + 1
	doneMessage   = "done\x00"
)

// exchangeAddresses sends this end's address to the peer, and connects to the
// peer's address. The client sends first; the server becomes ready before it
// replies.
func (e *endpoint) exchangeAddresses(conn net.Conn) error {
	_ = conn.SetDeadline(time.Now().Add(e.cfg.Timeout)) // fails only if the connection is closed
	defer context.AfterFunc(e.ctx, func() { conn.Close() })()
	var err error
	if e.cfg.Client {
		if err = e.sendAddress(conn); err == nil {
			err = e.receiveAddress(conn)
		}
		if err == nil {
			_, err = io.WriteString(conn, doneMessage)
		}
	} else {
		if err = e.receiveAddress(conn); err == nil {
			err = e.sendAddress(conn)
		}
		if err == nil {
			_, err = io.ReadFull(conn, make([]byte, len(doneMessage)))
		}
	}
	if err != nil {
		return fmt.Errorf("cannot agree with %v: %w", conn.RemoteAddr(), err)
	}
	return nil
}

func (e *endpoint) queuePairNumber() uint32 {
	if e.uc != nil {
		return e.uc.Number()
	}
	return e.ud.Number()
}

// sendAddress sends this end's address. RoCE has no LIDs.
func (e *endpoint) sendAddress(conn net.Conn) error {
	gid := e.dev.Addr().As16()
	_, err := fmt.Fprintf(conn, addressFormat, 0, e.queuePairNumber(), e.psn, gid[:])
	return err
}

// receiveAddress reads the peer's address and makes the queue pair ready.
func (e *endpoint) receiveAddress(conn net.Conn) error {
	b := make([]byte, addressLen)
	if _, err := io.ReadFull(conn, b); err != nil {
		return err
	}
	var lid, number, psn uint32
	var digits string
	if _, err := fmt.Sscanf(string(b[:addressLen-1]), "%x:%x:%x:%s", &lid, &number, &psn, &digits); err != nil {
		return fmt.Errorf("it says %q: %w", b, err)
	}
	gid, err := hex.DecodeString(digits)
	if err != nil || len(gid) != 16 {
		return fmt.Errorf("its message %q has no GID", b)
	}
	addr := netip.AddrFrom16([16]byte(gid)).Unmap()
	local := e.dev.Addr()
	if addr.IsUnspecified() || addr.Is4() != local.Is4() {
		return fmt.Errorf("its GID is %v, and this end's %v: give it the index of its GID in this network (-g 1 in most cases)", addr, local)
	}
	at := roce.Address{Addr: addr}
	if e.ud != nil {
		e.to = roce.Destination{Address: at, QP: number, QKey: queueKey}
		if err := e.ud.ReadyToReceive(); err != nil {
			return err
		}
		return e.ud.ReadyToSend(e.psn)
	}
	if err := e.uc.ReadyToReceive(roce.Peer{Address: at, QP: number, PSN: psn, PMTU: e.cfg.MTU}); err != nil {
		return err
	}
	return e.uc.ReadyToSend(e.psn)
}
