package oncrpc

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"

	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
	"github.com/nfsrdma/nfsrdma/xdr"
)

// A Mux hands calls to the programs registered with it. Register all of them
// before the first Serve.
type Mux struct {
	// Log is told of handlers that panic or fail with an error that no
	// answer but SYSTEM_ERR fits; nil means slog.Default.
	Log *slog.Logger

	logger   logger
	programs []program
	calls    sync.Pool // of *pooledCall
}

var _ Service = (*Mux)(nil)

type program struct {
	number   uint32
	versions []version
	only     func(*Peer) bool // who knows of it; nil: everyone
}

type version struct {
	number  uint32
	handler Handler
}

// A pooledCall is a Call and the storage of what it points to.
type pooledCall struct {
	Call
	gids [rpcmsg.MaxGIDs]uint32
}

var (
	errReplyLong  = errors.New("oncrpc: results too long for the reply")
	errItemLength = errors.New("oncrpc: length word in front of the data item is not its length")
	errPanic      = errors.New("oncrpc: handler panicked")
)

// A mismatchError is a call of a version that the program does not have.
type mismatchError struct{ low, high uint32 }

func (e mismatchError) Error() string {
	return fmt.Sprintf("oncrpc: program version not in %d to %d", e.low, e.high)
}

// Register makes h the given version of the given program. It panics where
// there is one already.
func (m *Mux) Register(prog, vers uint32, h Handler) {
	p := m.program(prog)
	if p == nil {
		m.programs = append(m.programs, program{number: prog})
		p = &m.programs[len(m.programs)-1]
	}
	for _, v := range p.versions {
		if v.number == vers {
			panic(fmt.Sprintf("oncrpc: program %d version %d registered twice", prog, vers))
		}
	}
	p.versions = append(p.versions, version{vers, h})
}

// Restrict says which callers there is a registered program for. To others it is
// unavailable, its procedure 0 too.
func (m *Mux) Restrict(prog uint32, only func(*Peer) bool) { m.program(prog).only = only }

// Serve answers one call as Service says: with what the program's handler
// makes of it, or with the error that RFC 5531 has for the case. Procedure 0
// of every registered program is answered here.
func (m *Mux) Serve(ctx context.Context, req *Request, rep *Reply) (answer bool) {
	c, _ := m.calls.Get().(*pooledCall)
	if c == nil {
		c = new(pooledCall)
	}
	defer m.calls.Put(c)
	err := m.serve(ctx, req, rep, c)
	switch {
	case err == nil:
		return true
	case errors.Is(err, ErrNoAnswer):
		rep.reset()
		return false
	}
	rep.reset()
	rep.Head = m.appendError(rep, c, err)
	return true
}

// serve fills rep, or returns why the call fails. c.XID is set unless the
// error is ErrNoAnswer.
func (m *Mux) serve(ctx context.Context, req *Request, rep *Reply, c *pooledCall) error {
	r := xdr.NewReader(req.Msg)
	if req.Item != nil {
		r.SetItem(req.ItemPos, req.Item)
	} else if req.Places != nil {
		r.SetPlaces(req.Places)
	}
	h, err := rpcmsg.ReadCall(&r)
	c.Call = Call{XID: h.XID, Prog: h.Prog, Vers: h.Vers, Proc: h.Proc, Peer: req.Peer}
	if err != nil {
		return err
	}
	handler, err := m.find(h.Prog, h.Vers, req.Peer)
	if err != nil {
		return err
	}
	// Before the NULL procedure: RPCSEC_GSS and AUTH_TLS use it to set up
	// a context or a secure channel, and would take the empty results for
	// theirs.
	if err := rpcmsg.CheckFlavor(h.Cred.Flavor); err != nil {
		return err
	}
	rep.Head = rpcmsg.AppendAccepted(rep.Head, h.XID, rpcmsg.Success)
	if h.Proc == 0 { // never needs an identity (RFC 5531, Section 12.1)
		return noItem(req)
	}
	if c.Cred, err = rpcmsg.DecodeCred(h.Cred, h.Verf, &c.gids); err != nil {
		return err
	}
	c.Args = r
	c.MaxReply = max(0, req.MaxReply-rpcmsg.AcceptedLen)
	if err := m.call(ctx, handler, &c.Call, rep); err != nil {
		return err
	}
	return checkReply(rep, req.MaxReply)
}

// noItem is the fate of a call without arguments: none of them can have come
// apart from the message (RFC 8166, Section 6.1).
func noItem(req *Request) error {
	if req.Item != nil || req.Places != nil {
		return xdr.ErrItem
	}
	return nil
}

// find returns the handler of a program's version, for a caller.
func (m *Mux) find(prog, vers uint32, peer *Peer) (Handler, error) {
	p := m.program(prog)
	if p == nil || p.only != nil && !p.only(peer) {
		return nil, ErrProgUnavail
	}
	e := mismatchError{low: p.versions[0].number, high: p.versions[0].number}
	for _, v := range p.versions {
		if v.number == vers {
			return v.handler, nil
		}
		e.low, e.high = min(e.low, v.number), max(e.high, v.number)
	}
	return nil, e
}

func (m *Mux) program(prog uint32) *program {
	for i := range m.programs {
		if m.programs[i].number == prog {
			return &m.programs[i]
		}
	}
	return nil
}

// call calls the handler. A panic is a fault of this program that one call
// brought to light: it is logged with its stack, and the service goes on for
// everyone else.
func (m *Mux) call(ctx context.Context, h Handler, c *Call, rep *Reply) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("%w: %v\n%s", errPanic, v, debug.Stack())
		}
	}()
	return h.ServeRPC(ctx, c, rep)
}

// checkReply finds the replies that a handler should not have made.
func checkReply(rep *Reply, limit int) error {
	if n := rep.Len(); n > limit {
		return fmt.Errorf("%w: %d octets of %d", errReplyLong, n, limit)
	}
	if rep.Item == nil {
		return nil
	}
	r := xdr.NewReader(rep.Head[max(0, len(rep.Head)-4):])
	if n := r.Uint32(); int64(n) != int64(len(rep.Item.B)) {
		return fmt.Errorf("%w: %d for %d octets", errItemLength, n, len(rep.Item.B))
	}
	return nil
}

// appendError is the one place where an error becomes an answer. A call that was
// refused was not executed, and may be when it comes again.
func (m *Mux) appendError(rep *Reply, c *pooledCall, err error) []byte {
	b := rep.Head
	rep.NoReplay = true
	var denied rpcmsg.AuthError
	var mismatch mismatchError
	switch {
	case errors.Is(err, rpcmsg.ErrVersion):
		return rpcmsg.AppendRPCMismatch(b, c.XID)
	case errors.As(err, &denied):
		return rpcmsg.AppendAuthError(b, c.XID, denied)
	case errors.As(err, &mismatch):
		return rpcmsg.AppendProgMismatch(b, c.XID, mismatch.low, mismatch.high)
	case errors.Is(err, ErrProgUnavail):
		return rpcmsg.AppendAccepted(b, c.XID, rpcmsg.ProgUnavail)
	case errors.Is(err, ErrProcUnavail):
		return rpcmsg.AppendAccepted(b, c.XID, rpcmsg.ProcUnavail)
	case isGarbage(err):
		return rpcmsg.AppendAccepted(b, c.XID, rpcmsg.GarbageArgs)
	}
	m.log().Error("RPC call failed", "prog", c.Prog, "vers", c.Vers, "proc", c.Proc,
		"xid", c.XID, "peer", c.Peer, "err", err)
	rep.NoReplay = false
	return rpcmsg.AppendAccepted(b, c.XID, rpcmsg.SystemErr)
}

// isGarbage tells whether err says that octets from the peer could not be
// decoded.
func isGarbage(err error) bool {
	for _, e := range []error{ErrGarbageArgs, xdr.ErrShort, xdr.ErrLong, xdr.ErrValue, xdr.ErrTrailing, xdr.ErrItem} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

func (m *Mux) log() *slog.Logger { return m.logger.of(m.Log) }
