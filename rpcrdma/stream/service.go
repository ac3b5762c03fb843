package stream

import (
	"context"
	"errors"
	"fmt"

	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
)

// A service is the Service for a Listener's Server. It puts each call into its
// connection's stream and waits until the reply has been written to the stream.
type service struct{ *Listener }

var errResultsLong = errors.New("stream: the TCP server has sent longer results than the procedure allows")

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
	if !s.parseCall(cl, req) {
		return s.fallback.Serve(ctx, req, rep)
	}
	cl.rep = rep
	if req.Places != nil || req.Item != nil && !isReducible(cl.binding, cl.proc, cl.args, req.ItemPos-cl.argsOffset, len(req.Item)) {
		return s.failCall(ctx, cl, req, oncrpc.ErrGarbageArgs)
	}
	cl.limitReply(req.MaxReply)
	c := s.streamFor(ctx, req.Peer)
	if c == nil || !c.putCall(cl, req) || !<-cl.done {
		rep.DropItem()
		return false
	}
	if cl.replyLen > cl.procMaxReply {
		return s.failCall(ctx, cl, req, fmt.Errorf("%w: a reply of %d bytes, above %d", errResultsLong, cl.replyLen, cl.procMaxReply))
	}
	cl.splitReply()
	return true
}

// parseCall parses a call's header, and returns false if the call is not for
// the TCP server.
func (l *Listener) parseCall(cl *call, req *oncrpc.Request) bool {
	c, ok := oncrpc.ParseCall(req.Msg)
	if !ok || c.Args.Err() != nil {
		return false
	}
	cl.xid, cl.prog, cl.vers, cl.proc = c.XID, c.Prog, c.Vers, c.Proc
	cl.argsOffset = c.Args.Offset()
	cl.args = req.Msg[cl.argsOffset:]
	for _, b := range l.bindings {
		if prog, vers := b.Program(); prog == cl.prog && vers == cl.vers {
			cl.binding = b
			if c.Cred.Flavor == rpcmsg.AuthGSS {
				cl.binding = sealedBinding{b}
			}
			return true
		}
	}
	return false
}

// failCall answers a call to a known program with the reply that represents
// err.
func (l *Listener) failCall(ctx context.Context, cl *call, req *oncrpc.Request, err error) bool {
	cl.rep.DropItem()
	m := oncrpc.Mux{Log: l.log()}
	m.Register(cl.prog, cl.vers, failingProgram{err})
	return m.Serve(ctx, req, cl.rep)
}

// A failingProgram is a program whose calls all fail.
type failingProgram struct{ err error }

func (f failingProgram) ServeRPC(context.Context, *oncrpc.Call, *oncrpc.Reply) error { return f.err }
