package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/nfsrdma/nfsrdma"
	"github.com/nfsrdma/nfsrdma/iwarp/ddp"
	"github.com/nfsrdma/nfsrdma/iwarp/mpa"
	"github.com/nfsrdma/nfsrdma/iwarp/rdmap"
	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
	"github.com/nfsrdma/nfsrdma/rpcrdma/wire"
)

// The calls of many clients, without their time: each message of a connection is the
// same FPDU but for its number, so that a client costs what that of a ping-pong does, and
// the server alone makes the difference.

// Positions in an FPDU that is a GETATTR or its reply: an untagged segment with a transport header
// that has no chunks.
const (
	atMSN  = mpa.LengthLen + ddp.UntaggedLen - 8
	atXID  = mpa.LengthLen + ddp.UntaggedLen // of the transport header
	atRPC  = atXID + wire.MinLen             // the message of RPC: its XID
	atStat = atRPC + rpcmsg.AcceptedLen - 4  // of a reply: accept_stat, and NFS's status
)

// callClient makes GETATTRs over RDMA, one at a time on each busy connection. Its
// arguments are the server's address, an export, BUSY/ALL connections, and the time.
func callClient(args []string) error {
	busy, all, err := busyOf(args[2])
	if err != nil {
		return err
	}
	call, err := getattrCall(args[0], args[1])
	if err != nil {
		return err
	}
	return exchange(busy, all, args[3], func() (*loop, error) { return newCallLoop(call) }, func() (net.Conn, error) { return dialMPA(args[0]) })
}

// getattrCall returns the FPDU of a GETATTR of an export's root, without numbers.
func getattrCall(addr, export string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	c, err := nfsrdma.Dial(ctx, addr, nfsrdma.ClientConfig{})
	if err != nil {
		return nil, err
	}
	defer c.Close()
	root, err := c.Mount(ctx, export)
	if err != nil {
		return nil, err
	}
	x := oncrpc.Exchange{Prog: nfs3.Program, Vers: nfs3.Version, Proc: nfs3.ProcGetAttr, Cred: rpcmsg.Cred{Flavor: rpcmsg.AuthSys}}
	h := wire.Header{Vers: wire.Version, Credit: 1, Proc: wire.Msg}
	segment := rdmap.AppendUntagged(nil, rdmap.OpSend, true, 0, 0, 0)
	segment = oncrpc.AppendCall(h.AppendTo(segment), 0, &x, "bench")
	segment = root.Root().AppendTo(segment)
	return mpa.AppendTrailerNoCRC(append(mpa.AppendLength(nil, len(segment)), segment...), len(segment)), nil
}

// newCallLoop returns a loop that makes a call, and expects successful replies to it.
func newCallLoop(call []byte) (*loop, error) {
	reply := ddp.UntaggedLen + wire.MinLen + rpcmsg.AcceptedLen + nfs3.MaxResult(nfs3.ProcGetAttr, 0)
	l, err := newLoop(mpa.FPDULen(reply), len(call))
	if err != nil {
		return nil, err
	}
	copy(l.out, call)
	sent := make(map[int]uint32) // by socket; the number of a call is its MSN and its XID
	l.stamp = func(fd int, out []byte) {
		sent[fd]++
		for _, at := range []int{atMSN, atXID, atRPC} {
			binary.BigEndian.PutUint32(out[at:], sent[fd])
		}
	}
	l.check = func(fd int, in []byte) error {
		xid, stat, status := binary.BigEndian.Uint32(in[atRPC:]), binary.BigEndian.Uint32(in[atStat:]), binary.BigEndian.Uint32(in[atStat+4:])
		if xid != sent[fd] || stat != rpcmsg.Success || nfs3.Status(status) != nfs3.OK {
			return fmt.Errorf("reply %d to call %d: accept_stat %d, status %d", xid, sent[fd], stat, status)
		}
		return nil
	}
	return l, nil
}

// dialMPA connects, without CRCs and Markers.
func dialMPA(addr string) (net.Conn, error) {
	c, err := dial(addr)
	if err != nil {
		return nil, err
	}
	local := mpa.Local{CRC: mpa.CRCOff, IRD: 1, ORD: 1}
	request := mpa.NewRequest(local)
	if _, err = c.Write(request.AppendTo(nil)); err == nil {
		err = startMPA(c, request, local)
	}
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// startMPA reads the Reply to a Request.
func startMPA(c net.Conn, request mpa.Frame, local mpa.Local) error {
	b := make([]byte, mpa.HeaderLen+mpa.MaxPrivateData)
	if _, err := io.ReadFull(c, b[:mpa.HeaderLen]); err != nil {
		return err
	}
	n, err := mpa.ReplyLen(b)
	if err != nil {
		return err
	}
	if _, err := io.ReadFull(c, b[mpa.HeaderLen:n]); err != nil {
		return err
	}
	reply, err := mpa.ParseReply(b[:n])
	if err != nil {
		return err
	}
	params, err := mpa.Complete(request, reply, local)
	if err == nil && (params.CRC || params.SendMarkers) {
		err = errors.New("the server requires CRCs or Markers")
	}
	return err
}
