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

// A BackContext is a client's context by which the server calls the client, with the
// handle, the service and the sequence numbers of that direction (RFC 8881, Sections
// 2.10.8.2 and 18.36.3). Its methods are safe for concurrent use. All BackContexts of a
// context share the numbers: a client may offer the context for several sessions, or again
// for the next, and drops calls whose numbers it has seen.
type BackContext struct {
	// fore is weak because a session lasts longer than contexts do, and would keep the keys
	// of those that have made room for others.
	fore weak.Pointer[established]

	handle      []byte
	service     uint32
	call, reply int         // see Room
	denied      atomic.Bool // the client does not have it any more
}

// firstBack is the first sequence number of calls to a client. One context signs the
// messages of both directions: with numbers that the client's own calls do not reach,
// no call to the client passes for the reply to a call of the client.
const firstBack = 1 << 30

// backNumbers are the numbers of a context's calls to its client, made for the first
// BackContext.
type backNumbers struct {
	once sync.Once
	*numbers
}

func (n *backNumbers) get() *numbers {
	n.once.Do(func() { n.numbers = newNumbers(firstBack, window) })
	return n.numbers
}

// Back returns the context with the handle fore for calls to the client, which knows it by
// the handle back. service is an rpc_gss_svc_t, and protects those calls and their
// replies. Back returns nil if there is no such context, or if the context is not
// that of the principal (rpcmsg.Cred): a client must not have messages signed by the
// context of another.
func (s *Server) Back(principal string, fore, back []byte, service uint32) *BackContext {
	if s.off() {
		return nil
	}
	k := s.contexts.take(fore)
	if k == nil {
		return nil
	}
	defer s.contexts.give(k)
	if k.name != principal || len(back) > maxHandle || service < serviceNone || service > servicePrivacy {
		return nil
	}
	b := &BackContext{fore: weak.Make(k), handle: slices.Clone(back), service: service}
	b.call, b.reply = (&signature{session: b.session(k), service: service}).Room()
	return b
}

// Left returns for how long the client can be called by the context: 0 or less if it has expired,
// or one of the ends does not have it any more.
func (b *BackContext) Left() time.Duration {
	now, k := time.Now(), b.established()
	if k == nil || b.denied.Load() || !k.back.get().last() {
		return 0
	}
	return k.Expires().Sub(now)
}

// established returns the context, or nil if the server does not have it any more.
func (b *BackContext) established() *established {
	if k := b.fore.Value(); k != nil && !k.gone.Load() {
		return k
	}
	return nil
}

// session returns the context for calls to the client.
func (b *BackContext) session(k *established) *session {
	return &session{Context: k.Context, handle: b.handle, numbers: k.back.get()}
}

var errGone = errors.New("rpcsec: the security context for calls to a client has ended")

// Room returns by how many bytes a call may be longer than its arguments, and an accepted
// reply longer than its results behind an empty verifier.
func (b *BackContext) Room() (call, reply int) { return b.call, b.reply }

// Call makes a call to the client through its connection, next (oncrpc.Caller). x.Cred is
// ignored, and x.Signer must be nil.
func (b *BackContext) Call(ctx context.Context, next oncrpc.Caller, x *oncrpc.Exchange) error {
	k := b.established()
	if k == nil {
		return errGone
	}
	err := b.session(k).call(ctx, next, x, new(signature), b.service)
	if errors.Is(err, rpcmsg.AuthCredProblem) || errors.Is(err, rpcmsg.AuthCtxProblem) { // RFC 2203, Section 5.3.3.3
		b.denied.Store(true)
	}
	return err
}
