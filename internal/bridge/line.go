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

// A Line is a connection to the server for only one client, whose calls keep their
// XIDs. CallXID is that of rpcrdma.ClientConn.
type Line interface {
	CallXID(ctx context.Context, x *oncrpc.Exchange, xid uint32) error
	Close() error
}

var (
	errSigned = errors.New("bridge: RPCSEC_GSS needs a connection for each client")

	// errNoConn reports a call that could not be sent on its client's own
	// connection.
	errNoConn = errors.New("bridge: no connection for a signed call")
)

// isSigned reports whether an RPCSEC_GSS context signs c. The signature includes
// the XID (RFC 2203, Section 5.3.1), so the bridge must keep it, and a sequence
// number (Section 5.2.1), so only the client can send the call again.
func isSigned(c *oncrpc.Call) bool { return c.Cred.Flavor == rpcmsg.AuthGSS }

// Unsigned reports whether a call message has no RPCSEC_GSS signature. A reply
// cache in front of the Bridge is useful only for these calls: a retransmission of
// a signed call is another message, and the server has a cache for it.
func Unsigned(msg []byte) bool {
	c, ok := oncrpc.ParseCall(msg)
	return ok && !isSigned(&c)
}

// An ownConn is a client's own connection to the server. It is closed with the
// client's connection.
type ownConn struct {
	ready chan struct{} // closed once conn or err is set
	conn  Line
	err   error

	mu    sync.Mutex
	calls map[uint32]struct{} // in flight, by XID
}

// callSigned sends a call on the client's own connection.
func (b *Bridge) callSigned(ctx context.Context, x *oncrpc.Exchange, xid uint32, peer *oncrpc.Peer) error {
	l, err := b.ensureOwnConn(ctx, peer)
	if err != nil {
		return err
	}
	// The second transmission has the XID of the first, to which the server has not
	// replied yet. On a new connection the client can send it again.
	if !l.beginCall(xid) {
		return fmt.Errorf("%w: XID %#x is in flight", errNoConn, xid)
	}
	defer l.endCall(xid)
	return l.conn.CallXID(ctx, x, xid)
}

// ensureOwnConn returns a client's own connection, and dials it for the first call.
// ctx is canceled when the client's connection closes.
func (b *Bridge) ensureOwnConn(ctx context.Context, peer *oncrpc.Peer) (*ownConn, error) {
	l := b.ownConns.Load(peer)
	if l == nil {
		var first bool
		l, first = b.ownConns.LoadOrStore(peer, &ownConn{ready: make(chan struct{}), calls: make(map[uint32]struct{})})
		if first {
			l.conn, l.err = b.dialOwnConn(ctx, peer)
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

// dialOwnConn dials a client's own connection, which is closed when ctx is
// canceled. Any user of a host can send calls that claim to be signed, and must not
// use up the connections for the host's mounts.
func (b *Bridge) dialOwnConn(ctx context.Context, peer *oncrpc.Peer) (Line, error) {
	party, places := fairshare.PartyOfIP(peer.Addr.Addr()), b.unreservedSlots
	if peer.Addr.Port() < endOfReservedPorts {
		places = b.reservedSlots
	}
	if !places.Take(party) {
		return nil, fmt.Errorf("%w: limit reached: %d connections serve other clients", errNoConn, places.Taken())
	}
	within, cancel := context.WithTimeoutCause(ctx, dialTime, fmt.Errorf("%w in %v", errNoConn, dialTime))
	defer cancel()
	line, err := b.Dial(within)
	if err != nil {
		places.Give(party)
		return nil, fmt.Errorf("%w: %w", errNoConn, err)
	}
	context.AfterFunc(ctx, func() {
		_ = line.Close()
		places.Give(party)
	})
	return line, nil
}

// beginCall records a call, unless another one with its XID is in flight.
func (l *ownConn) beginCall(xid uint32) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, ok := l.calls[xid]; ok {
		return false
	}
	l.calls[xid] = struct{}{}
	return true
}

func (l *ownConn) endCall(xid uint32) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.calls, xid)
}
