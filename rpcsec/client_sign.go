package rpcsec

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/nfsrdma/nfsrdma/gss"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
	"github.com/nfsrdma/nfsrdma/xdr"
)

// A session is a complete context of the end that calls, with the other end's handle for
// it.
type session struct {
	gss.Context
	handle []byte
	least  time.Time // calls may begin until then in any case
	*numbers
}

// numbers are the sequence numbers of a context's calls in one direction.
type numbers struct {
	// places has an element for each call under way: no more than the server's
	// window (RFC 2203, Section 5.2.3.1).
	places chan struct{}

	// A number that was taken but not sent must stay within the window while
	// others overtake it.
	mu     sync.Mutex
	sent   sync.Cond // on mu: a number has left unsent
	next   uint32
	unsent []uint32 // in ascending order
}

// newNumbers returns the numbers from the first on, for at most so many calls at once.
func newNumbers(first, places uint32) *numbers {
	k := &numbers{places: make(chan struct{}, places), next: first}
	k.sent.L = &k.mu
	return k
}

// call makes a call with an empty signature.
func (k *session) call(ctx context.Context, next oncrpc.Caller, x *oncrpc.Exchange, s *signature, service uint32) error {
	if err := k.enter(ctx); err != nil {
		return err
	}
	defer k.leave()
	s.session, s.proc, s.service, s.xid = k, procData, service, x.XID
	x.Signer = s
	err := next.Call(ctx, x)
	x.Signer, x.XID = nil, s.xid
	s.end()
	return err
}

// lasts reports whether calls may begin in the context.
func (k *session) lasts(now time.Time) bool {
	return (now.Before(k.Expires()) || now.Before(k.least)) && k.last()
}

// last reports whether there are numbers for many more calls.
func (k *numbers) last() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.next < maxSeq-maxNumbers*window
}

// enter waits for a place among the calls under way.
func (k *numbers) enter(ctx context.Context) error {
	select {
	case k.places <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (k *numbers) leave() { <-k.places }

// number takes the next number, for a transmission that is about to be made. It
// waits while an earlier one is so late that the window could pass it. That wait
// is short, because nobody waits for the server between number and done.
func (k *numbers) number() uint32 {
	k.mu.Lock()
	defer k.mu.Unlock()
	for len(k.unsent) > 0 && int(k.next-k.unsent[0]) >= cap(k.places) {
		k.sent.Wait()
	}
	n := k.next
	k.next++
	k.unsent = append(k.unsent, n)
	return n
}

// done says that the transmission with a number has left, or will not.
func (k *numbers) done(n uint32) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if i, ok := slices.BinarySearch(k.unsent, n); ok {
		k.unsent = slices.Delete(k.unsent, i, i+1)
		k.sent.Broadcast()
	}
}

// A signature is the Signer of one call, with the numbers of its transmissions: a
// slow server may answer an earlier one (RFC 2203, Section 5.3.3.1).
type signature struct {
	session *session
	proc    uint32
	service uint32
	xid     uint32 // of the newest transmission, or of an earlier call
	bench   bench
	numbers [maxNumbers]uint32 // the newest, in turn
	tries   int
}

var _ oncrpc.Signer = (*signature)(nil)

// Whole reports whether arguments and results are protected too.
func (s *signature) Whole() bool { return s.service != serviceNone }

// Room returns the length of the header, with what a protected call has behind it,
// and how much longer the reply gets.
func (s *signature) Room() (call, reply int) {
	front, behind := room(s.session, s.service)
	mic := padded(s.session.MICSize())
	return 6*4 + credentialLen(s.session.handle) + 4 + mic + front + behind, mic - 4 + front + behind
}

// AppendCall appends the call under a new number.
func (s *signature) AppendCall(b []byte, xid uint32, x *oncrpc.Exchange) ([]byte, error) {
	k := s.session
	s.sentLast()
	s.xid = xid
	n := k.number()
	s.numbers[s.tries%maxNumbers] = n
	s.tries++
	b, err := s.append(b, n, xid, x)
	if err != nil {
		return b, fmt.Errorf("rpcsec: the call cannot be protected: %w", err)
	}
	return b, nil
}

func (s *signature) append(b []byte, n, xid uint32, x *oncrpc.Exchange) (_ []byte, err error) {
	k, start := s.session, len(b)
	b = appendHeader(b, xid, x)
	b = appendCredential(b, credential{proc: s.proc, seq: n, service: s.service, handle: k.handle})
	signed := s.bench.of(b[start:])
	b = xdr.AppendUint32(b, rpcmsg.AuthGSS)
	b = xdr.AppendUint32(b, uint32(k.MICSize()))
	if b, err = k.AppendMIC(b, signed); err != nil {
		return b, err
	}
	b = append(b, zeros[:xdr.Pad(k.MICSize())]...)
	if s.service == serviceNone {
		return append(b, x.Args...), nil
	}
	at := len(b)
	front, _ := room(k, s.service)
	b = append(b, make([]byte, front)...)
	b = append(b, x.Args...)
	b = append(b, x.Item...)
	b = append(b, zeros[:xdr.Pad(len(x.Item))]...)
	b = append(b, x.Tail...)
	if b, _, err = s.bench.seal(k, s.service, n, b, at, nil); err != nil {
		return b[:start], err
	}
	return append(b, zeros[:xdr.Pad(len(b)-start)]...), nil
}

// Sent says that the transmission with the newest number has left.
func (s *signature) Sent() { s.sentLast() }

func (s *signature) sentLast() {
	if s.tries > 0 {
		s.session.done(s.numbers[(s.tries-1)%maxNumbers])
	}
}

// end makes s ready for another call.
func (s *signature) end() {
	s.sentLast()
	s.bench.clear()
	*s = signature{bench: bench{parts: s.bench.parts}}
}

// Open checks a reply. Its verifier signs the number of one of the transmissions.
func (s *signature) Open(verf rpcmsg.OpaqueAuth, stat uint32, r *xdr.Reader) error {
	n, ok := s.answered(verf)
	if !ok {
		return ErrReply // RFC 2203, Section 5.3.3.2: it must not be used
	}
	if stat != rpcmsg.Success || s.service == serviceNone {
		return nil
	}
	plain, _, err := s.bench.open(s.session, s.service, n, r.Rest())
	if err != nil {
		return fmt.Errorf("%w: %w", ErrReply, err)
	}
	*r = xdr.NewReader(plain)
	return nil
}

// answered returns the number of the transmission that a reply answers.
func (s *signature) answered(verf rpcmsg.OpaqueAuth) (n uint32, ok bool) {
	if verf.Flavor != rpcmsg.AuthGSS {
		return 0, false
	}
	for i := range min(s.tries, maxNumbers) {
		n = s.numbers[(s.tries-1-i)%maxNumbers]
		if s.session.VerifyMIC(verf.Body, s.bench.number(n)) == nil {
			return n, true
		}
	}
	return 0, false
}
