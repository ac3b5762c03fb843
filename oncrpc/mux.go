package oncrpc

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"

	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
	"github.com/nfsrdma/nfsrdma/oncrpc/xdr"
)

// A Mux dispatches calls to the programs registered with it. All programs must
// be registered before the first Serve.
type Mux struct {
	// Log receives handler panics, and the handler errors that become SYSTEM_ERR. Nil
	// means slog.Default.
	Log *slog.Logger

	// Admit, if not nil, is called before each procedure but 0. If it returns an error,
	// the call fails as if the program had returned that error. The Call's Cred and Args
	// are not set.
	Admit func(context.Context, *Call) error

	logger   logger
	programs []program
	calls    sync.Pool // contains *pooledCall
}

var _ Service = (*Mux)(nil)

type program struct {
	number    uint32
	versions  []version
	isAllowed func(*Peer) bool // reports whether a peer may use it; nil: all may
}

type version struct {
	number  uint32
	handler Handler
}

// A pooledCall is a Call with the memory that it refers to.
type pooledCall struct {
	Call
	gids [rpcmsg.MaxGIDs]uint32
}

var (
	errReplyLong  = errors.New("oncrpc: results too long for the reply")
	errItemLength = errors.New("oncrpc: length word in front of the data item is not its length")
	errPanic      = errors.New("oncrpc: handler panicked")
)

// A mismatchError reports a call for a version that the program does not have.
type mismatchError struct{ low, high uint32 }

func (e mismatchError) Error() string {
	return fmt.Sprintf("oncrpc: program version not in %d to %d", e.low, e.high)
}

// Register registers h for a version of a program. It panics if that
// version is already registered.
func (m *Mux) Register(prog, vers uint32, h Handler) {
	p := m.findProgram(prog)
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

// Restrict limits a registered program to the peers for which only returns true. For
// others the program is unavailable, even its procedure 0.
func (m *Mux) Restrict(prog uint32, only func(*Peer) bool) { m.findProgram(prog).isAllowed = only }

// Serve replies to one call as Service describes: with the handler's results, or with the
// error that RFC 5531 defines. For every registered program, Mux itself handles procedure
// 0.
func (m *Mux) Serve(ctx context.Context, req *Request, rep *Reply) (answer bool) {
	c, _ := m.calls.Get().(*pooledCall)
	if c == nil {
		c = new(pooledCall)
	}
	defer m.calls.Put(c)
	err := m.serveCall(ctx, req, rep, c)
	switch {
	case err == nil:
		return true
	case errors.Is(err, ErrNoAnswer):
		rep.Discard()
		return false
	}
	rep.Discard()
	rep.Head = m.appendError(rep, c, err)
	return true
}

// serveCall fills rep, or returns the call's error. c.XID is set unless the error is
// ErrNoAnswer.
func (m *Mux) serveCall(ctx context.Context, req *Request, rep *Reply, c *pooledCall) error {
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
	handler, err := m.findHandler(h.Prog, h.Vers, req.Peer)
	if err != nil {
		return err
	}
	// The check must precede the NULL procedure: RPCSEC_GSS and AUTH_TLS use
	// NULL to set up a context or a secure channel, and would mistake the empty
	// results for theirs.
	if err := rpcmsg.CheckFlavor(h.Cred.Flavor); err != nil {
		return err
	}
	rep.Head = rpcmsg.AppendAccepted(rep.Head, h.XID, rpcmsg.Success)
	if h.Proc == 0 { // needs no identity (RFC 5531, Section 12.1)
		return checkNoItem(req)
	}
	if m.Admit != nil {
		if err := m.Admit(ctx, &c.Call); err != nil {
			return err
		}
	}
	if req.Verified != nil {
		c.Cred = *req.Verified
	} else if c.Cred, err = rpcmsg.DecodeCred(h.Cred, h.Verf, &c.gids); err != nil {
		return err
	}
	c.Args = r
	c.MaxReply, c.Growth, c.ItemLimits = max(0, req.MaxReply-rpcmsg.AcceptedLen), req.Growth, req.ItemLimits
	if err := m.callHandler(ctx, handler, &c.Call, rep); err != nil {
		return err
	}
	return checkReply(rep, MaxReplies(req.MaxReply, req.ItemLimits))
}

// checkNoItem returns an error if a call without arguments has a separate data item (RFC
// 8166, Section 6.1).
func checkNoItem(req *Request) error {
	if req.Item != nil || req.Places != nil {
		return xdr.ErrItem
	}
	return nil
}

// findHandler returns the handler for a program version, if peer may use it.
func (m *Mux) findHandler(prog, vers uint32, peer *Peer) (Handler, error) {
	p := m.findProgram(prog)
	if p == nil || p.isAllowed != nil && !p.isAllowed(peer) {
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

func (m *Mux) findProgram(prog uint32) *program {
	for i := range m.programs {
		if m.programs[i].number == prog {
			return &m.programs[i]
		}
	}
	return nil
}

// callHandler calls the handler. If the handler panics, the panic is logged with its
// stack, and the service continues for all other calls.
func (m *Mux) callHandler(ctx context.Context, h Handler, c *Call, rep *Reply) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("%w: %v\n%s", errPanic, v, debug.Stack())
		}
		if rep.Trace != nil {
			rep.Trace.End(StageProgram, "", "")
		}
	}()
	if rep.Trace != nil {
		rep.Trace.Begin(StageProgram)
	}
	return h.ServeRPC(ctx, c, rep)
}

// checkReply rejects a handler's invalid reply.
func checkReply(rep *Reply, limit int) error {
	if n := rep.Len(); n > limit {
		return fmt.Errorf("%w: %d bytes of %d", errReplyLong, n, limit)
	}
	if rep.Item == nil {
		return nil
	}
	err := checkItem(rep.Head, rep.Item.B)
	before := rep.Tail
	for i := 0; i < len(rep.More) && err == nil; i++ {
		err = checkItem(before, rep.More[i].Item.B)
		before = rep.More[i].Tail
	}
	return err
}

// checkItem verifies that the last word in front of a data item is its length.
func checkItem(before, item []byte) error {
	r := xdr.NewReader(before[max(0, len(before)-4):])
	if n := r.Uint32(); int64(n) != int64(len(item)) {
		return fmt.Errorf("%w: %d for %d bytes", errItemLength, n, len(item))
	}
	return nil
}

// appendError is the only function that turns an error into a reply. A rejected call was
// not executed, so its retry may be executed.
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

// isGarbage reports whether err means that the peer's bytes could not be decoded.
func isGarbage(err error) bool {
	for _, e := range []error{ErrGarbageArgs, xdr.ErrShort, xdr.ErrLong, xdr.ErrValue, xdr.ErrTrailing, xdr.ErrItem} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

func (m *Mux) log() *slog.Logger { return m.logger.limitedLogger(m.Log) }
