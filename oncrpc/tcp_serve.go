package oncrpc

import (
	"encoding/binary"
	"runtime"
	"time"

	"github.com/nfsrdma/nfsrdma/internal/relief"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
)

// The goroutine with the turn to read serves short calls itself. Their replies
// are held back while whole calls are in the read buffer, and leave some at a
// time:
//
//	read ─▶ call ─▶ serve ─▶ reply ─┐
//	      ─▶ call ─▶ serve ─▶ reply ─┤ held
//	      ─▶ call ─▶ serve ─▶ reply ─┴─▶ one writev ─▶ read
//
// If a call or the write takes long, the watchdog has another goroutine read,
// which first writes what was held back. A call of a kind that was slow lately,
// and a long call or reply with more calls behind it, is served or written while
// another goroutine reads on. Inside of TLS, calls may be behind it that are yet
// to be decrypted.

// handle serves and answers cl. kept reports whether the goroutine still has
// the turn to read. If very many calls are under way, it keeps that however long
// cl takes.
func (c *tcpConn) handle(cl *tcpCall) (kept bool) {
	more := c.in.br.Buffered() > 0 || c.line != c.nc
	if cl.keeps = !cl.count(); cl.keeps {
		c.out.flush()
	} else if kind := c.takes(cl, more); kind != nil {
		return c.serveShort(cl, kind, more)
	} else {
		c.server.tasks.Go(c)
	}
	answer := c.serve(cl)
	kept = cl.keeps
	c.answer(cl, answer, false)
	return kept
}

// takes returns the kind of a call that the reader should serve, or nil. more is
// whether calls may be behind it.
func (c *tcpConn) takes(cl *tcpCall, more bool) *relief.Kind {
	msg := cl.record.B
	long := len(msg) > longRecord
	if len(msg) < rpcmsg.CallHeaderLen || long && more {
		return nil
	}
	var alike, form uint32
	if kind := c.server.Kind; kind != nil {
		alike = kind(msg)
	}
	if long {
		form = 1
	}
	k := c.kinds.Of(binary.BigEndian.Uint32(msg[12:]), binary.BigEndian.Uint32(msg[20:]), alike, form)
	if !k.Takes() {
		return nil
	}
	return k
}

// serveShort is handle for a call of a kind that was quick lately.
func (c *tcpConn) serveShort(cl *tcpCall, kind *relief.Kind, more bool) (kept bool) {
	soon := c.in.soon()
	w := &c.server.watchdog
	n := c.turn.Begin(w, kind)
	if n%relief.MaxTurn == 0 {
		runtime.Gosched() // other connections' readers may want to run
	}
	cl.turn = n
	start := time.Now()
	answer := c.serve(cl)
	slow := time.Since(start) > w.Slow
	if aside := cl.turn == 0; aside {
		c.answer(cl, answer, false)
		return false
	}
	if answer && more && cl.reply.Len() > longRecord {
		if c.turn.End(n) {
			c.server.tasks.Go(c)
		}
		c.answer(cl, answer, false)
		return false
	}
	c.answer(cl, answer, soon)
	if kept = c.turn.End(n); kept {
		kind.Note(slow)
	} else {
		c.out.flush() // the reader may not know of the reply
	}
	return kept
}

// flush writes the replies that were held back. kept is that of handle: another goroutine
// reads on if the peer does not take them.
func (c *tcpConn) flush() (kept bool) {
	if !c.out.holds() {
		return true
	}
	n := c.turn.Begin(&c.server.watchdog, &c.writing)
	c.out.flush()
	return c.turn.End(n)
}

// serve has the handler answer cl, and reports whether there is a reply.
func (c *tcpConn) serve(cl *tcpCall) (answer bool) {
	cl.request.Msg = cl.record.B
	answer = c.server.Handler.Serve(c.ctx, &cl.request, &cl.reply)
	cl.freeRecord()
	return answer
}

// answer queues the reply of a call that was served, if there is one, and
// otherwise ends the call. hold is that of replyQueue.put.
func (c *tcpConn) answer(cl *tcpCall, answer, hold bool) {
	if answer {
		cl.releaseUnused()
		c.out.put(cl, hold)
	} else {
		c.open.Add(-1)
		c.done(cl)
	}
}
