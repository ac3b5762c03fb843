package bridge

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/nfsrdma/nfsrdma/internal/fairshare"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
)

// A Line is a connection to the server for one client alone, whose calls keep their
// XIDs. CallXID is that of rpcrdma.ClientConn.
type Line interface {
	CallXID(ctx context.Context, x *oncrpc.Exchange, xid uint32) error
	Close() error
}

var (
	errSigned = errors.New("bridge: RPCSEC_GSS needs a line for each client")

	// errLine reports a call that could not be made on its client's line.
	errLine = errors.New("bridge: no line for a signed call")
)

// signed reports whether an RPCSEC_GSS context signs c. The signature includes the
// XID (RFC 2203, Section 5.3.1), so that the bridge must keep it, and a sequence number
// (Section 5.2.1), so that the client alone can send the call again.
func signed(c *oncrpc.Call) bool { return c.Cred.Flavor == rpcmsg.AuthGSS }

// Unsigned reports whether a call message has no signature of RPCSEC_GSS. A cache of
// replies in front of the Bridge is of use for these calls alone: a retransmission of
// a signed call is another message, and the server has a cache for it.
func Unsigned(msg []byte) bool {
	c, ok := oncrpc.ParseCall(msg)
	return ok && !signed(&c)
}

// An ownLine is the line of a client. It ends with the client's connection.
type ownLine struct {
	ready chan struct{} // closed once line or err is set
	line  Line
	err   error

	mu    sync.Mutex
	calls map[uint32]struct{} // under way, by XID
}

// callSigned makes a call on the client's own line.
func (b *Bridge) callSigned(ctx context.Context, x *oncrpc.Exchange, xid uint32, peer *oncrpc.Peer) error {
	l, err := b.lineOf(ctx, peer)
	if err != nil {
		return err
	}
	// The second transmission has the XID of the first, for which the server still
	// owes the reply. On a new connection the client can send it again.
	if !l.begin(xid) {
		return fmt.Errorf("%w: XID %#x is under way", errLine, xid)
	}
	defer l.end(xid)
	return l.line.CallXID(ctx, x, xid)
}

// lineOf returns the line of a client, and connects it for the first call. ctx ends
// with the client's connection.
func (b *Bridge) lineOf(ctx context.Context, peer *oncrpc.Peer) (*ownLine, error) {
	l := b.lines.Load(peer)
	if l == nil {
		var first bool
		l, first = b.lines.LoadOrStore(peer, &ownLine{ready: make(chan struct{}), calls: make(map[uint32]struct{})})
		if first {
			l.line, l.err = b.connect(ctx, peer)
			close(l.ready)
		}
	}
	select {
	case <-l.ready:
		return l, l.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// connect connects a line, which is closed once ctx ends. Any user of a host can
// claim signatures, and must not take the lines of the host's mounts.
func (b *Bridge) connect(ctx context.Context, peer *oncrpc.Peer) (Line, error) {
	party, places := fairshare.PartyOfIP(peer.Addr.Addr()), b.places
	if peer.Addr.Port() < reservedPorts {
		places = b.reserved
	}
	if !places.Take(party) {
		return nil, fmt.Errorf("%w: there are %d for other clients", errLine, places.Taken())
	}
	within, cancel := context.WithTimeoutCause(ctx, dialTime, fmt.Errorf("%w in %v", errLine, dialTime))
	defer cancel()
	line, err := b.Dial(within)
	if err != nil {
		places.Give(party)
		return nil, fmt.Errorf("%w: %w", errLine, err)
	}
	context.AfterFunc(ctx, func() {
		_ = line.Close()
		places.Give(party)
	})
	return line, nil
}

// begin notes a call, unless another one with its XID is under way.
func (l *ownLine) begin(xid uint32) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, ok := l.calls[xid]; ok {
		return false
	}
	l.calls[xid] = struct{}{}
	return true
}

func (l *ownLine) end(xid uint32) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.calls, xid)
}
