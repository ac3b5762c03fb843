package rpcsec

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/nfsrdma/nfsrdma/gss"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
	"github.com/nfsrdma/nfsrdma/xdr"
)

// establish makes a context with the server (RFC 2203, Section 5.2).
func (c *Client) establish(ctx context.Context) (*session, error) {
	bindings := c.bound.bindings()
	maker, err := c.cfg.Begin(ctx, bindings)
	if err != nil {
		return nil, err
	}
	defer maker.Close()
	token, made, err := maker.Step(ctx, nil)
	if err != nil {
		return nil, err
	}
	// Section 5.2.2 has servers ignore the service. That of nfs-ganesha denies none at all.
	create := creation{began: time.Now(), bound: c.bound, bindings: bindings, cred: credential{proc: procInit, service: c.service()}}
	for range maxRounds {
		res, err := c.create(ctx, &create, token)
		if err != nil {
			return nil, err
		}
		if made == nil && len(res.token) == 0 { // Step would wait for nothing
			return nil, errUnproved
		}
		if made == nil { // with the answer, this end knows the server (Section 5.2.3.1.1)
			if token, made, err = maker.Step(ctx, res.token); err != nil {
				return nil, err
			}
		}
		if res.major == gss.Complete {
			return newSession(made, &create, res)
		}
		create = creation{began: time.Now(), bound: c.bound, bindings: bindings, cred: credential{proc: procContinueInit, service: c.service(), handle: res.handle}}
	}
	return nil, errRounds
}

var (
	errRounds     = errors.New("rpcsec: the server wants too many tokens")
	errUnproved   = errors.New("rpcsec: the server's answer has no token: it does not prove its name")
	errIncomplete = errors.New("rpcsec: the server has a security context, and this end has none")
	errWindow     = errors.New("rpcsec: the server did not sign its window: the context is dropped")
	errNoWindow   = errors.New("rpcsec: the server's window is empty")
)

// A Bound remembers the channel bindings of the connection that has carried a token last
// (RFC 9289, Section 4.2.1): the next token is made for that connection. If another one
// comes to carry it, the token is not sent, and another is made. Clients that use the same
// connections share a Bound. The zero value is ready for use.
type Bound struct{ last atomic.Pointer[[]byte] }

func (b *Bound) bindings() []byte {
	if last := b.last.Load(); last != nil {
		return *last
	}
	return nil
}

// ErrResent means that the connection was lost while a security context was made, that
// another connection carried the token than that to which it is bound, or that the token
// had waited for so long that it is too old. Another call makes another.
var ErrResent = errors.New("rpcsec: the connection was lost while a security context was made")

// create makes one creation call. The result's slices are copies.
func (c *Client) create(ctx context.Context, s *creation, token []byte) (initResult, error) {
	x := oncrpc.Exchange{
		Prog: c.cfg.Prog, Vers: c.cfg.Vers, Signer: s,
		Args: xdr.AppendOpaque(nil, token), MaxResults: 5*4 + maxHandle + maxToken,
	}
	if err := c.next.Call(ctx, &x); err != nil {
		return initResult{}, err
	}
	defer x.Release()
	var res initResult
	if err := res.read(&x.Results); err != nil {
		return initResult{}, err
	}
	if res.major != gss.Complete && res.major != gss.ContinueNeeded {
		return initResult{}, &gss.Error{Major: res.major, Minor: res.minor, Err: errors.New("the server refused the security context")}
	}
	res.handle, res.token = append([]byte(nil), res.handle...), append([]byte(nil), res.token...)
	return res, nil
}

// newSession checks the server's signature of its window, and returns the complete
// context.
func newSession(made gss.Context, create *creation, res initResult) (*session, error) {
	var w bench
	switch {
	case made == nil:
		return nil, errIncomplete
	case create.verf.Flavor != rpcmsg.AuthGSS:
		return nil, errWindow
	case res.window == 0:
		return nil, errNoWindow
	}
	if err := made.VerifyMIC(create.verf.Body, w.number(res.window)); err != nil {
		return nil, fmt.Errorf("%w: %v", errWindow, err) // no *gss.Error: the server has refused nothing
	}
	return &session{
		Context: made, handle: res.handle, least: time.Now().Add(leastLife), numbers: newNumbers(0, min(res.window, window)),
	}, nil
}

// A creation is the Signer of a creation call: nothing of the call is signed, and
// the reply's verifier can be checked only later.
type creation struct {
	began    time.Time // when the token was made
	bound    *Bound
	bindings []byte // of the token
	cred     credential
	made     bool
	moved    bool              // to a connection with other bindings
	verf     rpcmsg.OpaqueAuth // of the reply
}

var _ oncrpc.BoundSigner = (*creation)(nil)

// Bind compares the connection with the token's: a server refuses a token that is bound
// to another, because somebody between the ends could have passed it on.
func (s *creation) Bind(by *oncrpc.Security) {
	now := bindingsOf(by)
	if s.moved = !bytes.Equal(now, s.bindings); s.moved {
		s.bound.last.Store(&now)
	}
}

// Whole returns false: the token is no data item.
func (s *creation) Whole() bool { return false }

// Room returns the length of the header, and of the longest verifier.
func (s *creation) Room() (call, reply int) {
	return plainHeader - 2*4 + credentialLen(s.cred.handle), rpcmsg.MaxAuthBody
}

// AppendCall appends the call, once: a server refuses the same token again, and one
// that waited for the server.
func (s *creation) AppendCall(b []byte, xid uint32, x *oncrpc.Exchange) ([]byte, error) {
	if s.made || s.moved || time.Since(s.began) > maxTokenAge {
		return b, ErrResent
	}
	s.made = true
	b = appendHeader(b, xid, x)
	b = appendCredential(b, s.cred)
	b = xdr.AppendUint32(b, rpcmsg.AuthNone)
	b = xdr.AppendUint32(b, 0)
	return append(b, x.Args...), nil
}

// Sent does nothing: the call has no number.
func (s *creation) Sent() {}

// Open keeps the verifier.
func (s *creation) Open(verf rpcmsg.OpaqueAuth, _ uint32, _ *xdr.Reader) error {
	s.verf = rpcmsg.OpaqueAuth{Flavor: verf.Flavor, Body: append([]byte(nil), verf.Body...)}
	return nil
}

// appendHeader appends a call's header up to the credential.
func appendHeader(b []byte, xid uint32, x *oncrpc.Exchange) []byte {
	for _, v := range [...]uint32{xid, rpcmsg.MsgCall, rpcmsg.Version, x.Prog, x.Vers, x.Proc} {
		b = xdr.AppendUint32(b, v)
	}
	return b
}
