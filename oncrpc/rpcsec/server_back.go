package rpcsec

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"
	"weak"

	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
)

// A BackContext is a client's context with which the server calls the client, with that
// direction's handle, service and sequence numbers (RFC 8881, Sections 2.10.8.2 and
// 18.36.3). Its methods are safe for concurrent use. All BackContexts of a context share
// the numbers: a client may offer the context for several sessions, or again for the
// next, and drops calls whose numbers it has seen.
type BackContext struct {
	// context is weak because a session outlives contexts, and would keep the keys of
	// evicted ones.
	context weak.Pointer[serverContext]

	handle                      []byte
	service                     uint32
	callOverhead, replyOverhead int         // see Overhead
	denied                      atomic.Bool // the client no longer has it
}

// firstBack is the first sequence number for calls to a client. One context signs the
// messages in both directions: with numbers that the client's own calls do not reach, a
// call to the client can never be mistaken for a reply to one of the client's calls.
const firstBack = 1 << 30

// backNumbers are the sequence numbers for a context's calls to its client, created for
// the first BackContext.
type backNumbers struct {
	once sync.Once
	*sequenceNumbers
}

func (n *backNumbers) get() *sequenceNumbers {
	n.once.Do(func() { n.sequenceNumbers = newSequenceNumbers(firstBack, maxSeq, window) })
	return n.sequenceNumbers
}

// Back returns the context with the handle fore for calls to the client, which knows it
// by the handle back. service is an rpc_gss_svc_t, and protects those calls and their
// replies. Back returns nil if there is no such context, or if it does not belong to the
// principal (rpcmsg.Cred): a client must not obtain messages signed with another's
// context.
func (s *Server) Back(principal string, fore, back []byte, service uint32) *BackContext {
	if s.isOff() {
		return nil
	}
	k := s.contexts.acquire(fore)
	if k == nil {
		return nil
	}
	defer s.contexts.release(k)
	if k.name != principal || len(back) > maxHandle || service < serviceNone || service > servicePrivacy {
		return nil
	}
	b := &BackContext{context: weak.Make(k), handle: slices.Clone(back), service: service}
	b.callOverhead, b.replyOverhead = (&signature{session: b.newSession(k), service: service}).Overhead()
	return b
}

// Left returns the time for which the client can be called with the context: 0 or less if
// it has expired, or one of the ends no longer has it.
func (b *BackContext) Left() time.Duration {
	now, k := time.Now(), b.liveContext()
	if k == nil || b.denied.Load() || !k.back.get().hasReserve() {
		return 0
	}
	return k.Expires().Sub(now)
}

// liveContext returns the context, or nil if the server no longer has it.
func (b *BackContext) liveContext() *serverContext {
	if k := b.context.Value(); k != nil && !k.removed.Load() {
		return k
	}
	return nil
}

// newSession returns a session for calls to the client.
func (b *BackContext) newSession(k *serverContext) *session {
	return &session{Context: k.Context, handle: b.handle, sequenceNumbers: k.back.get()}
}

var errGone = errors.New("rpcsec: the security context for calls to a client has expired")

// Overhead returns the number of bytes by which a call may exceed its arguments, and an
// accepted reply its results after an empty verifier.
func (b *BackContext) Overhead() (call, reply int) { return b.callOverhead, b.replyOverhead }

// Call makes a call to the client through its connection, next (oncrpc.Caller). x.Cred is
// ignored, and x.Signer must be nil.
func (b *BackContext) Call(ctx context.Context, next oncrpc.Caller, x *oncrpc.Exchange) error {
	k := b.liveContext()
	if k == nil {
		return errGone
	}
	err := b.newSession(k).makeCall(ctx, next, x, new(signature), b.service)
	if errors.Is(err, rpcmsg.AuthCredProblem) || errors.Is(err, rpcmsg.AuthCtxProblem) { // RFC 2203, Section 5.3.3.3
		b.denied.Store(true)
	}
	return err
}
