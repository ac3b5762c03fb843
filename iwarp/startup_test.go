package iwarp

import (
	"context"
	"net"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/iwarp/mpa"
	"github.com/nfsrdma/nfsrdma/rdma"
)

// In the peer-to-peer model the responder may speak first: the initiator says
// by itself that it is ready.
func TestRTRComesByItself(t *testing.T) {
	world(t)
	a, b := pair(t, options{initiator: Config{PeerToPeer: true}})
	require.NoError(t, b.Post(rdma.WR{Op: rdma.OpSend, Data: [][]byte{[]byte("hello")}}))
	require.Equal(t, "hello", string(a.in.next(t)))
}

// rawResponder starts an initiator and returns the raw peer that has its
// request.
func rawResponder(t testing.TB, cfg Config, cc rdma.ConnConfig) (*rawPeer, mpa.Frame, <-chan dialed) {
	t.Helper()
	a, b := ncPair(t, false)
	t.Cleanup(func() { b.Close() })
	result := make(chan dialed, 1)
	go func() {
		c, err := Client(context.Background(), a, cfg, cc)
		result <- dialed{c, err}
	}()
	p := &rawPeer{t: t, nc: b}
	head := p.read(mpa.HeaderLen)
	n, err := mpa.RequestLen(head)
	require.NoError(t, err)
	req, err := mpa.ParseRequest(append(head, p.read(n-mpa.HeaderLen)...))
	require.NoError(t, err)
	return p, req, result
}

type dialed struct {
	c   *Conn
	err error
}

// An initiator that cannot live with the reply says so by a Terminate, whose
// CRC is right where CRCs are on.
func TestRefusedReplyHasCRC(t *testing.T) {
	for _, crc := range []bool{false, true} {
		world(t)
		p, req, result := rawResponder(t, Config{CRC: mpa.CRCOff, IRD: 4}, rdma.ConnConfig{Handler: newInbox()})
		require.False(t, req.CRC)
		p.crc = crc
		p.write(mpa.Frame{Reply: true, Rev: mpa.Rev2, CRC: crc, HasEnhanced: true, Enhanced: mpa.Enhanced{ORD: 5}}.AppendTo(nil))
		require.Equal(t, mpa.ErrIRD, mpa.Error(p.terminate().Cause.Code))
		require.ErrorIs(t, (<-result).err, mpa.ErrIRD)
	}
}

// Who was accepted stays so when the listener closes.
func TestListenerCloseSparesAccepted(t *testing.T) {
	world(t)
	for range 50 {
		tl, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		ln := NewListener(tl, Config{})
		nc, err := net.Dial("tcp", tl.Addr().String())
		require.NoError(t, err)
		require.NoError(t, writeFrame(nc, mpa.NewRequest(mpa.Local{IRD: 1})))
		r, err := ln.Accept(t.Context())
		require.NoError(t, err)
		require.NoError(t, ln.Close())
		require.NoError(t, r.Reject(nil))
		_, err = readReply(nc)
		require.NoError(t, err)
		nc.Close()
	}
}
