package oncrpc

import (
	"encoding/binary"
	"runtime"
	"time"

	"github.com/nfsrdma/nfsrdma/internal/relief"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
)

// The goroutine with the turn to read serves short calls itself. Their replies are held
// back while whole calls are in the read buffer, and are sent in batches:
//
//	read ─▶ call ─▶ serve ─▶ reply ─┐
//	      ─▶ call ─▶ serve ─▶ reply ─┤ held
//	      ─▶ call ─▶ serve ─▶ reply ─┴─▶ one writev ─▶ read
//
// If a call or the write takes long, the watchdog starts another reader, which first
// writes what was held back. A call whose kind was slow recently, and a long call or
// reply with more calls after it, is served or written while another goroutine continues
// reading. With TLS, the following calls may not have been decrypted yet.

// handleCall serves cl and queues the reply. keepsTurn reports whether the goroutine
// still has the turn to read. If very many calls are in flight, it keeps that however
// long cl takes.
func (c *tcpConn) handleCall(cl *tcpCall) (keepsTurn bool) {
	more := c.in.br.Buffered() > 0 || c.stream != c.nc
	if cl.keepsTurn = !cl.tryReserve(); cl.keepsTurn {
		c.out.flush()
	} else if kind := c.kindForReader(cl, more); kind != nil {
		return c.serveShort(cl, kind, more)
	} else {
		c.server.tasks.Go(c)
	}
	answer := c.callHandler(cl)
	keepsTurn = cl.keepsTurn
	c.queueReply(cl, answer, false)
	return keepsTurn
}

// kindForReader returns the kind of cl if the reader should serve it, or nil. more
// reports whether calls may follow it.
func (c *tcpConn) kindForReader(cl *tcpCall, more bool) *relief.Kind {
	msg := cl.record.B
	long := len(msg) > maxReaderRecord
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

// serveShort handles a call whose kind was quick recently.
func (c *tcpConn) serveShort(cl *tcpCall, kind *relief.Kind, more bool) (keepsTurn bool) {
	soon := c.in.isNextReady()
	w := &c.server.watchdog
	n := c.turn.Begin(w, kind)
	if n%relief.MaxTurn == 0 {
		runtime.Gosched() // other connections' readers may want to run
	}
	cl.turnNumber = n
	start := time.Now()
	answer := c.callHandler(cl)
	slow := time.Since(start) > w.Slow
	if aside := cl.turnNumber == 0; aside {
		c.queueReply(cl, answer, false)
		return false
	}
	if answer && more && cl.reply.Len() > maxReaderRecord {
		if c.turn.End(n) {
			c.server.tasks.Go(c)
		}
		c.queueReply(cl, answer, false)
		return false
	}
	c.queueReply(cl, answer, soon)
	if keepsTurn = c.turn.End(n); keepsTurn {
		kind.Note(slow)
	} else {
		c.out.flush() // the reader may not know of the reply
	}
	return keepsTurn
}

// flushReplies writes the replies that were held back. keepsTurn is as for handleCall:
// another goroutine continues reading if the peer does not accept them.
func (c *tcpConn) flushReplies() (keepsTurn bool) {
	if !c.out.hasHeldReplies() {
		return true
	}
	n := c.turn.Begin(&c.server.watchdog, &c.writing)
	c.out.flush()
	return c.turn.End(n)
}

// callHandler calls the handler, and reports whether there is a reply.
func (c *tcpConn) callHandler(cl *tcpCall) (answer bool) {
	cl.request.Msg = cl.record.B
	answer = c.server.Handler.Serve(c.ctx, &cl.request, &cl.reply)
	cl.freeRecord()
	return answer
}

// queueReply queues a served call's reply, if there is one, and otherwise finishes the
// call. hold is as for replyQueue.put.
func (c *tcpConn) queueReply(cl *tcpCall, answer, hold bool) {
	if answer {
		cl.releaseUnused()
		c.out.put(cl, hold)
	} else {
		c.unqueued.Add(-1)
		c.finishCall(cl)
	}
}
