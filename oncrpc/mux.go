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

// A Mux dispatches calls to the programs registered with it. All programs must
// be registered before the first Serve.
type Mux struct {
	// Log receives the panics of handlers, and the handler errors that only
	// SYSTEM_ERR can answer. Nil means slog.Default.
	Log *slog.Logger

	logger   logger
	programs []program
	calls    sync.Pool // of *pooledCall
}

var _ Service = (*Mux)(nil)

type program struct {
	number   uint32
	versions []version
	only     func(*Peer) bool // reports which peers may use it; nil: all
}

type version struct {
	number  uint32
	handler Handler
}

// A pooledCall is a Call with the storage that it refers to.
type pooledCall struct {
	Call
	gids [rpcmsg.MaxGIDs]uint32
}

var (
	errReplyLong  = errors.New("oncrpc: results too long for the reply")
	errItemLength = errors.New("oncrpc: length word in front of the data item is not its length")
	errPanic      = errors.New("oncrpc: handler panicked")
)

// A mismatchError reports a call of a version that the program does not have.
type mismatchError struct{ low, high uint32 }

func (e mismatchError) Error() string {
	return fmt.Sprintf("oncrpc: program version not in %d to %d", e.low, e.high)
}

// Register makes h the given version of the given program. It panics if that
// version is already registered.
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

// Restrict limits a registered program to the callers for which only returns
// true. For others the program is unavailable, even its procedure 0.
func (m *Mux) Restrict(prog uint32, only func(*Peer) bool) { m.program(prog).only = only }

// Serve answers one call as Service describes: with the results of the
// program's handler, or with the error that RFC 5531 defines for the case. Mux
// itself answers procedure 0 of every registered program.
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

// serve fills rep, or returns the error of the call. c.XID is set unless the
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
	// The check must precede the NULL procedure: RPCSEC_GSS and AUTH_TLS use
	// NULL to set up a context or a secure channel, and would mistake the empty
	// results for theirs.
	if err := rpcmsg.CheckFlavor(h.Cred.Flavor); err != nil {
		return err
	}
	rep.Head = rpcmsg.AppendAccepted(rep.Head, h.XID, rpcmsg.Success)
	if h.Proc == 0 { // needs no identity (RFC 5531, Section 12.1)
		return noItem(req)
	}
	if req.Verified != nil {
		c.Cred = *req.Verified
	} else if c.Cred, err = rpcmsg.DecodeCred(h.Cred, h.Verf, &c.gids); err != nil {
		return err
	}
	c.Args = r
	c.MaxReply, c.Growth, c.ItemRooms = max(0, req.MaxReply-rpcmsg.AcceptedLen), req.Growth, req.ItemRooms
	if err := m.call(ctx, handler, &c.Call, rep); err != nil {
		return err
	}
	return checkReply(rep, MaxReplies(req.MaxReply, req.ItemRooms))
}

// noItem returns an error if a call without arguments carries a data item apart
// from the message (RFC 8166, Section 6.1).
func noItem(req *Request) error {
	if req.Item != nil || req.Places != nil {
		return xdr.ErrItem
	}
	return nil
}

// find returns the handler of a program's version for a caller.
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

// call calls the handler. A panic is a bug that one call revealed: it is logged
// with its stack, and the service continues for all other calls.
func (m *Mux) call(ctx context.Context, h Handler, c *Call, rep *Reply) (err error) {
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

// checkReply rejects invalid replies of a handler.
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

// checkItem compares the last word in front of a data item with its length.
func checkItem(before, item []byte) error {
	r := xdr.NewReader(before[max(0, len(before)-4):])
	if n := r.Uint32(); int64(n) != int64(len(item)) {
		return fmt.Errorf("%w: %d for %d bytes", errItemLength, n, len(item))
	}
	return nil
}

// appendError is the only place that turns an error into an answer. A refused
// call was not executed, so its retry may be executed.
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

// isGarbage reports whether err means that bytes from the peer could not be
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
