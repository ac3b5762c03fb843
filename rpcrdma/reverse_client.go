package rpcrdma

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"

	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/rdma"
	"github.com/nfsrdma/nfsrdma/rpcrdma/wire"
)

// Calls in the reverse direction (RFC 8167) go from the responder of a
// connection to its requester. They are short messages: they have no chunks
// (Section 5.3), and keep to the thresholds of the forward direction (Section
// 4.2). Each direction has its own XIDs and its own credits, with their own
// receives.
//
//	responder                                   requester
//	ReverseClient.Call ──ClientConn without chunks── CALL ──▶ reverseServer ──▶ Backchannel
//	    ▲                                             │
//	    └───────────────── REPLY ◀────────────────────┘
//
// The message type decides the direction of a message: a requester gets replies
// forward and calls in reverse, a responder the opposite. An RDMA_ERROR has no
// type, and is for the end that makes calls: it never answers a reply.

// msg_type of an RPC message (RFC 5531, Section 9), and its offset.
const (
	msgCall    = 0
	msgReply   = 1
	msgTypeOff = 4
)

// msgTypeEnd is the length of an RPC message up to and including msg_type, in
// bytes.
const msgTypeEnd = msgTypeOff + 4

func msgType(body []byte) uint32 { return binary.BigEndian.Uint32(body[msgTypeOff:]) }

// ErrReverseLong is the error of a call in the reverse direction that is too long
// for a message without chunks.
var ErrReverseLong = errors.New("rpcrdma: reverse call longer than the inline threshold")

// A ReverseClient is a connection of a Server as the served programs find it in
// oncrpc.Peer: it lets them call the requester (RFC 8167). A program must not
// do so before the requester has announced, by the program's own protocol, that
// it takes calls: other requesters may lose the connection (Section 6).
// ReverseClient implements oncrpc.Caller.
//
// Calls under way when the connection ends fail with rdma.ErrClosed. They may
// be repeated when the requester has connected again, and not before (Section
// 5.4).
type ReverseClient struct {
	c      *conn
	client atomic.Pointer[ClientConn] // from the first call on
}

var _ oncrpc.Caller = (*ReverseClient)(nil)

// Call makes a call to the requester (oncrpc.Caller). If the requester cannot
// answer in a short message, the error is a RemoteError.
func (b *ReverseClient) Call(ctx context.Context, x *oncrpc.Exchange) error {
	c, err := b.requester()
	if err != nil {
		return err
	}
	return c.Call(ctx, x)
}

// ExtensionConn returns the extensions of the connection, or nil unless both
// ends are of this project.
func (b *ReverseClient) ExtensionConn() *ExtensionConn { return b.c.link }

// requester returns the reverse requester.
func (b *ReverseClient) requester() (*ClientConn, error) {
	if r := b.client.Load(); r != nil {
		return r, nil
	}
	c := b.c
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.closed:
		return nil, fmt.Errorf("rpcrdma: %w: %w", rdma.ErrClosed, context.Cause(c.ctx))
	case b.client.Load() == nil:
		r := newClient(c.srv.reverse, oncrpc.NewXIDs(rand.Uint32()))
		r.conn, r.sendSize, r.recvSize, r.short = c.rc, c.longest, c.srv.cfg.inline, true
		b.client.Store(r)
	}
	return b.client.Load(), nil
}

// takeReply takes a message if it answers a reverse call. The reverse requester
// posts the receives for its replies, so the forward direction is not affected.
func (b *ReverseClient) takeReply(m rdma.Recv) bool {
	c := b.client.Load()
	if c == nil || !answersReverse(m.Buf.B) {
		return false
	}
	(*clientHandler)(c).Receive(m)
	return true
}

// closed ends the reverse calls.
func (b *ReverseClient) closed(cause error) {
	if c := b.client.Load(); c != nil {
		(*clientHandler)(c).Closed(cause)
	}
}

// answersReverse reports whether a message to a responder answers a reverse
// call: an RDMA_ERROR, or an RDMA_MSG without chunks that holds an RPC reply.
func answersReverse(b []byte) bool {
	if len(b) >= wire.ErrChunkLen && wire.Proc(binary.BigEndian.Uint32(b[12:])) == wire.Error {
		return true
	}
	return isShort(b) && msgType(b[wire.MinLen:]) == msgReply
}

// isReverse reports whether a message to a requester is a call in the reverse
// direction, judged by its header and body. If err is set, it reports whether
// they cannot belong to a reply. Only calls have Read lists.
func isReverse(h *wire.Header, body []byte, err error, b []byte) bool {
	switch {
	case err == nil:
		return h.Proc == wire.Msg && len(body) >= msgTypeEnd && msgType(body) == msgCall
	case errors.Is(err, wire.ErrXID):
		return isShort(b) && msgType(b[wire.MinLen:]) == msgCall
	}
	return len(h.Lists.Reads) > 0
}

// isShort reports whether b is an RDMA_MSG without chunks, with an RPC message
// that is long enough to have a type.
func isShort(b []byte) bool {
	return len(b) >= wire.MinLen+msgTypeEnd && [wire.MinLen - 12]byte(b[12:]) == [wire.MinLen - 12]byte{}
}

// beside takes messages that are not forward calls: Immediate Data, and answers
// to reverse calls.
func (c *conn) beside(m rdma.Recv) bool {
	if !m.WithImmediate {
		return c.back.takeReply(m)
	}
	if err := c.link.receive(m.Immediate); err != nil {
		c.abort(err)
	}
	return true
}

// endBeside ends the extensions and the reverse calls.
func (c *conn) endBeside(cause error) {
	c.link.closed(cause)
	c.back.closed(cause)
}

// fillReverse completes and checks the fields of the reverse direction and the
// extension.
func (c *ClientConnConfig) fillReverse() error {
	c.BackchannelCredits = orDefault(c.BackchannelCredits, defaultReverse)
	if c.BackchannelCredits < 1 || c.BackchannelCredits > maxCredits {
		return fmt.Errorf("rpcrdma: %d reverse credits are not between 1 and %d", c.BackchannelCredits, maxCredits)
	}
	return c.Extensions.check(false)
}

func (s *Server) fillReverse() error {
	s.reverse = ClientConnConfig{Inline: s.cfg.inline, Credits: orDefault(s.ReverseCredits, defaultReverse)}
	return errors.Join(s.reverse.fill(), s.Extensions.check(true))
}
