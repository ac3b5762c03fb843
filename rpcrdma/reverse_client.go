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

// Reverse calls (RFC 8167) go from a connection's responder to its requester.
// They are short messages: they have no chunks (Section 5.3), and respect the
// forward direction's thresholds (Section 4.2). Each direction has its own XIDs
// and its own credits, with their own receives.
//
//	responder                                   requester
//	ReverseClient.Call ──ClientConn without chunks── CALL ──▶ reverseServer ──▶ Backchannel
//	    ▲                                             │
//	    └───────────────── REPLY ◀────────────────────┘
//
// The message type determines a message's direction: a requester receives
// replies in the forward and calls in the reverse direction, a responder the
// opposite. An RDMA_ERROR has no type, and is for the end that sends calls: it
// never answers a reply.

// msg_type values in an RPC message (RFC 5531, Section 9), and its offset.
const (
	msgCall    = 0
	msgReply   = 1
	msgTypeOff = 4
)

// msgTypeEnd is the length, in bytes, of an RPC message up to and including
// msg_type.
const msgTypeEnd = msgTypeOff + 4

func msgType(body []byte) uint32 { return binary.BigEndian.Uint32(body[msgTypeOff:]) }

// ErrReverseLong is the error for a reverse call that is too long for a message
// without chunks.
var ErrReverseLong = errors.New("rpcrdma: reverse call longer than the inline threshold")

// A ReverseClient is a Server's connection as the served programs find it in
// oncrpc.Peer: with it they can call the requester (RFC 8167). A program must
// not do so before the requester has announced, by the program's own protocol,
// that it accepts calls: other requesters may drop the connection (Section 6).
// ReverseClient implements oncrpc.Caller.
//
// Calls in flight when the connection ends fail with rdma.ErrClosed. They may
// be retransmitted when the requester has reconnected, and not before (Section
// 5.4).
type ReverseClient struct {
	c      *conn
	client atomic.Pointer[ClientConn] // set by the first call
}

var _ oncrpc.Caller = (*ReverseClient)(nil)

// Call sends a call to the requester and waits for the reply (oncrpc.Caller).
// If the requester cannot reply in a short message, the error is a RemoteError.
func (b *ReverseClient) Call(ctx context.Context, x *oncrpc.Exchange) error {
	c, err := b.reverseRequester()
	if err != nil {
		return err
	}
	return c.Call(ctx, x)
}

// ExtensionConn returns the connection's extensions, or nil unless both ends
// belong to this project.
func (b *ReverseClient) ExtensionConn() *ExtensionConn { return b.c.extConn }

// reverseRequester returns the reverse requester, creating it at the first
// call.
func (b *ReverseClient) reverseRequester() (*ClientConn, error) {
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
		r.conn, r.sendSize, r.recvSize, r.noChunks = c.rc, c.maxSend, c.srv.cfg.inline, true
		b.client.Store(r)
	}
	return b.client.Load(), nil
}

// takeReply consumes a message if it answers a reverse call, and reports
// whether it did. The reverse requester posts the receives for its replies, so
// the forward direction is not affected.
func (b *ReverseClient) takeReply(m rdma.Recv) bool {
	c := b.client.Load()
	if c == nil || !answersReverse(m.Buf.B) {
		return false
	}
	(*clientHandler)(c).Receive(m)
	return true
}

// handleClosed fails the reverse calls.
func (b *ReverseClient) handleClosed(cause error) {
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

// receiveReverse consumes Immediate Data and replies to reverse calls, and reports whether m was
// one.
func (c *conn) receiveReverse(m rdma.Recv) bool {
	if !m.WithImmediate {
		return c.reverse.takeReply(m)
	}
	if err := c.extConn.receiveImmediate(m.Immediate); err != nil {
		c.abort(err)
	}
	return true
}

// endReverse closes the extensions and fails the reverse calls.
func (c *conn) endReverse(cause error) {
	c.extConn.handleClosed(cause)
	c.reverse.handleClosed(cause)
}

// fillReverse completes and checks the fields for the reverse direction and the
// extensions.
func (c *ClientConnConfig) fillReverse() error {
	c.BackchannelCredits = orDefault(c.BackchannelCredits, defaultReverse)
	if c.BackchannelCredits < 1 || c.BackchannelCredits > maxCredits {
		return fmt.Errorf("rpcrdma: %d reverse credits are not between 1 and %d", c.BackchannelCredits, maxCredits)
	}
	return c.Extensions.checkConfig(false)
}

func (s *Server) fillReverse() error {
	s.reverse = ClientConnConfig{Inline: s.cfg.inline, Credits: orDefault(s.ReverseCredits, defaultReverse)}
	return errors.Join(s.reverse.fillAndCheck(), s.Extensions.checkConfig(true))
}
