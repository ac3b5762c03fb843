package stream

import (
	"context"
	"errors"
	"fmt"

	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
)

// A service is the Service of a Listener's Server. It puts each
// call into the stream of its connection and waits until the reply has been
// written to the stream.
type service struct{ *Listener }

var errResultsLong = errors.New("stream: the server behind has sent longer results than the procedure has")

// Serve implements oncrpc.Service.
func (s service) Serve(ctx context.Context, req *oncrpc.Request, rep *oncrpc.Reply) (answer bool) {
	cl, _ := s.calls.Get().(*call)
	if cl == nil {
		cl = &call{done: make(chan bool, 1)}
	}
	defer func() {
		*cl = call{done: cl.done}
		s.calls.Put(cl)
	}()
	if !s.begin(cl, req) {
		return s.others.Serve(ctx, req, rep)
	}
	cl.rep = rep
	if req.Places != nil || req.Item != nil && !reducible(cl.binding, cl.proc, cl.args, req.ItemPos-cl.argsAt, len(req.Item)) {
		return s.fail(ctx, cl, req, oncrpc.ErrGarbageArgs)
	}
	cl.limit(req.MaxReply)
	c := s.conn(ctx, req.Peer)
	if c == nil || !c.put(cl, req) || !<-cl.done {
		rep.DropItem()
		return false
	}
	if cl.length > cl.bound {
		return s.fail(ctx, cl, req, fmt.Errorf("%w: a reply of %d bytes, above %d", errResultsLong, cl.length, cl.bound))
	}
	cl.takeApart()
	return true
}

// begin reads the header of a call, and returns false if the call is not for
// the server behind.
func (l *Listener) begin(cl *call, req *oncrpc.Request) bool {
	c, ok := oncrpc.ParseCall(req.Msg)
	if !ok || c.Args.Err() != nil {
		return false
	}
	cl.xid, cl.prog, cl.vers, cl.proc = c.XID, c.Prog, c.Vers, c.Proc
	cl.argsAt = c.Args.Offset()
	cl.args = req.Msg[cl.argsAt:]
	for _, b := range l.bindings {
		if prog, vers := b.Program(); prog == cl.prog && vers == cl.vers {
			cl.binding = b
			if c.Cred.Flavor == rpcmsg.AuthGSS {
				cl.binding = sealed{b}
			}
			return true
		}
	}
	return false
}

// fail answers a call of a known program with the reply that err stands for.
func (l *Listener) fail(ctx context.Context, cl *call, req *oncrpc.Request, err error) bool {
	cl.rep.DropItem()
	m := oncrpc.Mux{Log: l.log()}
	m.Register(cl.prog, cl.vers, failing{err})
	return m.Serve(ctx, req, cl.rep)
}

// A failing is a program whose calls all fail.
type failing struct{ err error }

func (f failing) ServeRPC(context.Context, *oncrpc.Call, *oncrpc.Reply) error { return f.err }
