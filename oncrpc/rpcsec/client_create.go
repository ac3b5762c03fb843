package rpcsec

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/gss"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
	"github.com/nfsrdma/nfsrdma/oncrpc/xdr"
)

// establishSession establishes a context with the server (RFC 2203, Section 5.2).
func (c *Client) establishSession(ctx context.Context) (*session, error) {
	bindings := c.bound.channelBindings()
	initiator, err := c.cfg.Begin(ctx, bindings)
	if err != nil {
		return nil, err
	}
	defer initiator.Close()
	token, established, err := initiator.Step(ctx, nil)
	if err != nil {
		return nil, err
	}
	// Section 5.2.2 has servers ignore the service. nfs-ganesha rejects a call that has
	// none.
	create := creationSigner{startTime: time.Now(), bound: c.bound, bindings: bindings, cred: credential{proc: procInit, service: c.service()}}
	for range maxRounds {
		res, err := c.callCreate(ctx, &create, token)
		if err != nil {
			return nil, err
		}
		if established == nil && len(res.token) == 0 { // Step needs a token
			return nil, errUnproved
		}
		if established == nil { // the reply authenticates the server (Section 5.2.3.1.1)
			if token, established, err = initiator.Step(ctx, res.token); err != nil {
				return nil, err
			}
		}
		if res.major == gss.Complete {
			return newSession(established, &create, res)
		}
		create = creationSigner{startTime: time.Now(), bound: c.bound, bindings: bindings, cred: credential{proc: procContinueInit, service: c.service(), handle: res.handle}}
	}
	return nil, errRounds
}

var (
	errRounds     = errors.New("rpcsec: the server requests too many tokens")
	errUnproved   = errors.New("rpcsec: the server's reply has no token, so the server is not authenticated")
	errIncomplete = errors.New("rpcsec: the server has completed the security context, but the client has not")
	errWindow     = errors.New("rpcsec: the server did not sign its window: the context is dropped")
	errNoWindow   = errors.New("rpcsec: the server's window is empty")
)

// A Bound stores the channel bindings of the connection that carried the last token (RFC
// 9289, Section 4.2.1): the next token is created for that connection. If another
// connection is about to carry it, the token is not sent, and a new one is created.
// Clients that use the same connections share a Bound. The zero value is ready for use.
type Bound struct{ last atomic.Pointer[[]byte] }

func (b *Bound) channelBindings() []byte {
	if last := b.last.Load(); last != nil {
		return *last
	}
	return nil
}

// ErrResent means that the connection was lost while a security context was established,
// that the connection is not the one to which the token is bound, or that the token
// waited too long to be sent. Another call creates a new token.
var ErrResent = errors.New("rpcsec: the connection was lost while a security context was established")

// callCreate makes one creation call. The result's slices are copies.
func (c *Client) callCreate(ctx context.Context, s *creationSigner, token []byte) (initResult, error) {
	x := oncrpc.Exchange{
		Prog: c.cfg.Prog, Vers: c.cfg.Vers, Signer: s,
		Args: xdr.AppendOpaque(nil, token), MaxResults: 5*4 + maxHandle + maxToken,
	}
	if err := c.next.Call(ctx, &x); err != nil {
		return initResult{}, err
	}
	defer x.Release()
	var res initResult
	if err := res.decode(&x.Results); err != nil {
		return initResult{}, err
	}
	if res.major != gss.Complete && res.major != gss.ContinueNeeded {
		return initResult{}, &gss.Error{Major: res.major, Minor: res.minor, Err: errors.New("the server rejected the security context")}
	}
	res.handle, res.token = append([]byte(nil), res.handle...), append([]byte(nil), res.token...)
	return res, nil
}

// newSession verifies the server's signature over its window, and returns the complete
// context.
func newSession(made gss.Context, create *creationSigner, res initResult) (*session, error) {
	var w sliceScratch
	switch {
	case made == nil:
		return nil, errIncomplete
	case create.verf.Flavor != rpcmsg.AuthGSS:
		return nil, errWindow
	case res.window == 0:
		return nil, errNoWindow
	}
	if err := made.VerifyMIC(create.verf.Body, w.wordList(res.window)); err != nil {
		return nil, fmt.Errorf("%w: %v", errWindow, err) // no *gss.Error, because the server rejected nothing
	}
	return &session{
		Context: made, handle: res.handle, minEnd: time.Now().Add(minContextLife), sequenceNumbers: newSequenceNumbers(0, firstBack, min(res.window, window)),
	}, nil
}

// A creationSigner is the Signer for a creation call: the call is not signed, and the
// reply's verifier can be checked only later.
type creationSigner struct {
	startTime time.Time // when the token was created
	bound     *Bound
	bindings  []byte // the token's
	cred      credential
	appended  bool
	rebound   bool              // the connection has other bindings
	verf      rpcmsg.OpaqueAuth // the reply's
}

var _ oncrpc.BoundSigner = (*creationSigner)(nil)

// Bind compares the connection's bindings with the token's: a server rejects a token that
// is bound to another connection, because a machine in the middle could have forwarded
// it.
func (s *creationSigner) Bind(by *oncrpc.Security) {
	now := bindingsOf(by)
	if s.rebound = !bytes.Equal(now, s.bindings); s.rebound {
		s.bound.last.Store(&now)
	}
}

// Whole returns false: the token is not a data item.
func (s *creationSigner) Whole() bool { return false }

// Overhead returns the header's length and the maximum verifier length.
func (s *creationSigner) Overhead() (call, reply int) {
	return plainHeader - 2*4 + credentialLen(s.cred.handle), rpcmsg.MaxAuthBody
}

// AppendCall appends the call once: a server rejects a repeated token, and one that
// waited too long.
func (s *creationSigner) AppendCall(b []byte, xid uint32, x *oncrpc.Exchange) ([]byte, error) {
	if s.appended || s.rebound || time.Since(s.startTime) > maxTokenAge {
		return b, ErrResent
	}
	s.appended = true
	b = appendHeader(b, xid, x)
	b = appendCredential(b, s.cred)
	b = xdr.AppendUint32(b, rpcmsg.AuthNone)
	b = xdr.AppendUint32(b, 0)
	return append(b, x.Args...), nil
}

// Sent does nothing: the call has no sequence number.
func (s *creationSigner) Sent() {}

// Open stores the verifier.
func (s *creationSigner) Open(verf rpcmsg.OpaqueAuth, _ uint32, _ *xdr.Reader) error {
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
