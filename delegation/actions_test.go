package delegation

import "fmt"

// A modelAction is an event that may happen next.
type modelAction struct {
	name string
	do   func(w *modelState)
}

// possibleActions returns all events that may happen to w. Actions refer to w's
// parts by index, because they are applied to copies of w.
func (w *modelState) possibleActions() (next []modelAction) {
	add := func(do func(w *modelState), name string, args ...any) {
		next = append(next, modelAction{fmt.Sprintf(name, args...), do})
	}
	for i, e := range w.clients {
		w.clientActions(i, e, add)
		w.wireActions(i, e, add)
		w.callActions(i, e, add)
	}
	w.changeActions(add)
	if w.left.steps > 0 {
		add(func(w *modelState) {
			w.left.steps--
			w.now += modelStep
			w.applyEffects(w.g.Tick(w.now))
		}, "time goes on")
	}
	return next
}

type adder func(do func(w *modelState), name string, args ...any)

func (w *modelState) clientActions(i int, e *clientState, add adder) {
	if e.disconnected {
		return
	}
	if w.left.asks[i] > 0 && e.d == nil {
		add(func(w *modelState) { w.startAcquire(w.clients[i], i) }, "%d asks", i)
	}
	if w.left.opens[i] > 0 && e.d != nil {
		add(func(w *modelState) { w.openDelegation(w.clients[i], i) }, "%d opens", i)
	}
	if w.left.checks[i] > 0 && e.d != nil {
		add(func(w *modelState) {
			w.left.checks[i]--
			e, op := w.clients[i], new(Op)
			if e.h.Check(e.d, op, w.now) == Post {
				w.postUse(e, op)
			}
		}, "%d looks", i)
	}
	if w.left.closes[i] > 0 && e.using > 0 && e.d != nil {
		add(func(w *modelState) {
			w.left.closes[i]--
			e, op := w.clients[i], new(Op)
			e.using--
			if e.h.Close(e.d, op, w.now) {
				w.postOp(e, &message{op: op})
			}
		}, "%d closes", i)
	}
	if w.left.closes[i] > 0 && e.closing > 0 {
		add(func(w *modelState) {
			w.left.closes[i]--
			e, op := w.clients[i], new(Op)
			e.closing--
			if e.h.Close(e.former, op, w.now) {
				w.postOp(e, &message{op: op})
			}
		}, "%d closes what it has lost", i)
	}
	if due, ok := e.h.RenewDue(); ok && due <= w.now && e.renewed < w.left.renews {
		add(func(w *modelState) {
			w.clients[i].renewed++
			if op := new(Op); w.clients[i].h.Renew(op, w.now) {
				w.postOp(w.clients[i], &message{op: op})
			}
		}, "%d renews", i)
	}
	if e.drop != nil {
		add(func(w *modelState) {
			e := w.clients[i]
			d := e.drop
			e.drop = nil
			w.applyPosts(e, e.h.Dropped(d))
		}, "%d has dropped all", i)
	}
	if len(e.arrived) > 0 {
		add(func(w *modelState) { w.handleGranted(w.clients[i]) }, "%d takes a reply", i)
	}
	if e.cut {
		add(func(w *modelState) { w.loseConn(w.clients[i]) }, "%d learns of the end", i)
	} else if w.left.cuts > 0 {
		add(func(w *modelState) {
			w.left.cuts--
			w.loseConn(w.clients[i])
		}, "%d closes its connection", i)
	}
}

func (w *modelState) startAcquire(e *clientState, i int) {
	w.left.asks[i]--
	op := new(Op)
	a, renew := e.h.BeginAcquire(op, w.now)
	if renew {
		w.postOp(e, &message{op: op})
	}
	w.postOp(e, &message{call: &call{a: a}})
}

func (w *modelState) openDelegation(e *clientState, i int) {
	w.left.opens[i]--
	op := new(Op)
	switch e.h.Open(e.d, op, w.now) {
	case Post:
		e.lasting = append(e.lasting, op)
		w.postUse(e, op)
	default: // Serve: checkCached checks the verdict
		e.using++
	}
}

func (w *modelState) postUse(e *clientState, op *Op) {
	e.pending, e.asked = append(e.pending, op), append(e.asked, w.version)
	w.postOp(e, &message{op: op})
}

func (w *modelState) handleGranted(e *clientState) {
	c := e.arrived[0].call
	e.arrived = e.arrived[1:]
	if c.res == nil {
		e.h.NotGranted(c.a)
		return
	}
	d, fx, err := e.h.Granted(c.a, c.res)
	if err != nil {
		w.recordFailure("%v", err)
	}
	if d != nil {
		e.d, e.cached, e.using = d, max(c.version, e.own), 1
		e.pending, e.asked, e.lasting = nil, nil, nil
	}
	w.applyPosts(e, fx)
}

// loseConn closes the client's side of a connection.
func (w *modelState) loseConn(e *clientState) {
	e.disconnected = true
	e.up, e.down, e.arrived, e.pending, e.asked, e.lasting = nil, nil, nil, nil, nil, nil
	w.applyPosts(e, e.h.Disconnect())
	e.drop = nil
}

func (w *modelState) wireActions(i int, e *clientState, add adder) {
	if len(e.up) > 0 && !e.cut {
		add(func(w *modelState) { w.deliverToServer(w.clients[i]) }, "the server takes from %d", i)
	}
	if len(e.queue) > 0 && !e.cut {
		add(func(w *modelState) { w.sendQueued(w.clients[i]) }, "the server sends to %d", i)
	}
	if len(e.down) > 0 && !e.disconnected {
		add(func(w *modelState) { w.deliverToClient(w.clients[i]) }, "%d takes from the wire", i)
	}
	switch {
	case e.cut:
	case e.ending: // until then, messages that arrive get replies
		add(func(w *modelState) {
			w.clients[i].cut = true
			w.applyEffects(w.g.Disconnect(w.clients[i].conn, false, w.now))
		}, "the connection of %d has ended", i)
	case e.disconnected:
		add(func(w *modelState) {
			w.clients[i].cut = true
			w.applyEffects(w.g.Disconnect(w.clients[i].conn, true, w.now))
		}, "the server learns that %d has ended", i)
	case w.left.cuts > 0:
		add(func(w *modelState) {
			w.left.cuts--
			w.clients[i].cut = true
			w.applyEffects(w.g.Disconnect(w.clients[i].conn, false, w.now))
		}, "the server loses %d", i)
	}
	if w.left.reclaims > 0 && !e.cut && e.conn.grantCount > 0 {
		add(func(w *modelState) {
			w.left.reclaims--
			w.g.reclaimSome(w.clients[i].conn, anyGrant)
			w.applyEffects(w.g.performEnded(w.g.takeEffects()))
		}, "the server reclaims from %d", i)
	}
}

func (w *modelState) callActions(i int, e *clientState, add adder) {
	for n, c := range e.calls {
		step := "answers"
		switch {
		case c.at != nil:
			step = "commits"
		case c.res == nil && !c.granted:
			step = "prepares"
		}
		add(func(w *modelState) { w.serveCall(w.clients[i], n) }, "the server %s ACQUIRE %d of %d", step, n, i)
	}
}

// serveCall advances ACQUIRE n by one step.
func (w *modelState) serveCall(e *clientState, n int) {
	c := e.calls[n]
	switch {
	case c.granted: // the reply is posted; a recall follows the reply
		e.calls = append(e.calls[:n:n], e.calls[n+1:]...)
		e.queue = append(e.queue, &message{call: c})
		var fx effects
		if c.res != nil {
			fx = w.g.Replied(e.conn, Grant{c.res.Slot, c.res.Generation})
		}
		w.applyEffects(fx)
	case c.at == nil:
		at, why, fx := w.g.Prepare(e.conn, fileKey, w.now)
		c.at, c.granted = at, why != 0
		c.version = w.version
		w.applyEffects(fx)
	default:
		gt, why, fx := w.g.Commit(c.at, w.now)
		c.at, c.granted = nil, true
		if why == 0 {
			c.res = &AcquireRes{Slot: gt.Slot, Generation: gt.Generation, Types: FileData, LeaseMS: uint32(modelLease.Milliseconds())}
			for _, o := range e.out {
				if o.Slot == gt.Slot {
					w.recordFailure("slot %d is used again before it has been returned", o.Slot)
				}
			}
		}
		w.applyEffects(fx)
	}
}

func (w *modelState) changeActions(add adder) {
	for by, left := range w.left.changes {
		if left > 0 && (by == 2 || !w.clients[by].cut) {
			add(func(w *modelState) {
				w.left.changes[by]--
				var conn *Conn
				if by < 2 {
					conn = w.clients[by].conn
				}
				c := &change{ch: new(Change), by: by}
				ready, fx := w.g.Change(c.ch, conn, fileKey, w.now)
				c.ready = ready
				w.changes = append(w.changes, c)
				w.applyEffects(fx)
			}, "a change by %d", by)
		}
	}
	if w.left.unnamed > 0 && len(w.g.table.held) == 0 {
		add(func(w *modelState) {
			w.left.unnamed--
			w.g.table.unnamed++
			w.changes = append(w.changes, &change{ch: new(Change), by: 2, ready: true, unnamed: true})
		}, "an unnamed change")
	}
	for n, c := range w.changes {
		if c.ready {
			add(func(w *modelState) {
				c := w.changes[n]
				w.version++
				if c.by < 2 { // the client knows its own changes
					w.clients[c.by].own, w.clients[c.by].cached = w.version, w.version
				}
				w.g.Done(c.ch)
				if c.unnamed {
					w.g.table.unnamed--
				}
				w.changes = append(w.changes[:n:n], w.changes[n+1:]...)
			}, "change %d is made", n)
		} else if w.left.postpone {
			add(func(w *modelState) {
				w.g.Postpone(w.changes[n].ch, w.now)
				w.changes = append(w.changes[:n:n], w.changes[n+1:]...)
			}, "change %d is postponed", n)
		}
	}
}
