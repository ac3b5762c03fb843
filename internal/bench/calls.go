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
	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
	"github.com/nfsrdma/nfsrdma/rdma/iwarp/ddp"
	"github.com/nfsrdma/nfsrdma/rdma/iwarp/mpa"
	"github.com/nfsrdma/nfsrdma/rdma/iwarp/rdmap"
	"github.com/nfsrdma/nfsrdma/rpcrdma/wire"
)

// Calls from many clients, without the clients' CPU time: all messages on a
// connection are the same FPDU except for its numbers, so that a client costs the
// same as a ping-pong client, and only the server makes the difference.

// Positions in an FPDU that is a GETATTR or its reply: an untagged segment with a
// transport header that has no chunks.
const (
	atMSN  = mpa.LengthLen + ddp.UntaggedLen - 8
	atXID  = mpa.LengthLen + ddp.UntaggedLen // in the transport header
	atRPC  = atXID + wire.MinLen             // in the RPC message: its XID
	atStat = atRPC + rpcmsg.AcceptedLen - 4  // in a reply: accept_stat, followed by the NFS status
)

// runCallClient sends GETATTRs over RDMA, one at a time on each busy connection.
// Its arguments are the server's address, an export, BUSY/ALL connections, and the
// time.
func runCallClient(args []string) error {
	busy, all, err := parseBusy(args[2])
	if err != nil {
		return err
	}
	call, err := newGetattrCall(args[0], args[1])
	if err != nil {
		return err
	}
	return exchangeMessages(busy, all, args[3], func() (*echoLoop, error) { return newCallLoop(call) }, func() (net.Conn, error) { return dialMPA(args[0]) })
}

// newGetattrCall returns the FPDU with a GETATTR for an export's root, without
// numbers.
func newGetattrCall(addr, export string) ([]byte, error) {
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

// newCallLoop returns a loop that sends a call repeatedly, and expects successful
// replies.
func newCallLoop(call []byte) (*echoLoop, error) {
	reply := ddp.UntaggedLen + wire.MinLen + rpcmsg.AcceptedLen + nfs3.MaxResult(nfs3.ProcGetAttr, 0)
	l, err := newEchoLoop(mpa.FPDULen(reply), len(call))
	if err != nil {
		return nil, err
	}
	copy(l.out, call)
	sent := make(map[int]uint32) // by socket; a call's number is its MSN and its XID
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

// dialMPA connects with MPA, without CRCs and Markers.
func dialMPA(addr string) (net.Conn, error) {
	c, err := dialReno(addr)
	if err != nil {
		return nil, err
	}
	local := mpa.Local{CRC: mpa.CRCOff, IRD: 1, ORD: 1}
	request := mpa.NewRequest(local)
	if _, err = c.Write(request.AppendTo(nil)); err == nil {
		err = readMPAReply(c, request, local)
	}
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// readMPAReply reads the MPA Reply to a Request.
func readMPAReply(c net.Conn, request mpa.Frame, local mpa.Local) error {
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
