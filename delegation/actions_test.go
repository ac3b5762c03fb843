package delegation

import "fmt"

// An action is an event that may happen next.
type action struct {
	name string
	do   func(w *world)
}

// actions returns all events that may happen to w. Actions refer to parts of w
// by index, because they are applied to copies of w.
func (w *world) actions() (next []action) {
	add := func(do func(w *world), name string, args ...any) {
		next = append(next, action{fmt.Sprintf(name, args...), do})
	}
	for i, e := range w.ends {
		w.clientActions(i, e, add)
		w.wireActions(i, e, add)
		w.callActions(i, e, add)
	}
	w.changeActions(add)
	if w.left.steps > 0 {
		add(func(w *world) {
			w.left.steps--
			w.now += modelStep
			w.server(w.g.Tick(w.now))
		}, "time goes on")
	}
	return next
}

type adder func(do func(w *world), name string, args ...any)

func (w *world) clientActions(i int, e *end, add adder) {
	if e.gone {
		return
	}
	if w.left.asks[i] > 0 && e.d == nil {
		add(func(w *world) { w.ask(w.ends[i], i) }, "%d asks", i)
	}
	if w.left.opens[i] > 0 && e.d != nil {
		add(func(w *world) { w.open(w.ends[i], i) }, "%d opens", i)
	}
	if w.left.checks[i] > 0 && e.d != nil {
		add(func(w *world) {
			w.left.checks[i]--
			e, op := w.ends[i], new(Op)
			if e.h.Check(e.d, op, w.now) == Post {
				w.use(e, op)
			}
		}, "%d looks", i)
	}
	if w.left.closes[i] > 0 && e.using > 0 && e.d != nil {
		add(func(w *world) {
			w.left.closes[i]--
			e, op := w.ends[i], new(Op)
			e.using--
			if e.h.Close(e.d, op, w.now) {
				w.post(e, &message{op: op})
			}
		}, "%d closes", i)
	}
	if w.left.closes[i] > 0 && e.closing > 0 {
		add(func(w *world) {
			w.left.closes[i]--
			e, op := w.ends[i], new(Op)
			e.closing--
			if e.h.Close(e.former, op, w.now) {
				w.post(e, &message{op: op})
			}
		}, "%d closes what it has lost", i)
	}
	if due, ok := e.h.RenewDue(); ok && due <= w.now && e.renewed < w.left.renews {
		add(func(w *world) {
			w.ends[i].renewed++
			if op := new(Op); w.ends[i].h.Renew(op, w.now) {
				w.post(w.ends[i], &message{op: op})
			}
		}, "%d renews", i)
	}
	if e.drop != nil {
		add(func(w *world) {
			e := w.ends[i]
			d := e.drop
			e.drop = nil
			w.client(e, e.h.Dropped(d))
		}, "%d has dropped all", i)
	}
	if len(e.come) > 0 {
		add(func(w *world) { w.granted(w.ends[i]) }, "%d takes a reply", i)
	}
	if e.cut {
		add(func(w *world) { w.lose(w.ends[i]) }, "%d learns of the end", i)
	} else if w.left.cuts > 0 {
		add(func(w *world) {
			w.left.cuts--
			w.lose(w.ends[i])
		}, "%d closes its connection", i)
	}
}

func (w *world) ask(e *end, i int) {
	w.left.asks[i]--
	op := new(Op)
	a, renew := e.h.Ask(op, w.now)
	if renew {
		w.post(e, &message{op: op})
	}
	w.post(e, &message{call: &call{a: a}})
}

func (w *world) open(e *end, i int) {
	w.left.opens[i]--
	op := new(Op)
	switch e.h.Open(e.d, op, w.now) {
	case Post:
		e.lasting = append(e.lasting, op)
		w.use(e, op)
	default: // Serve: world.serve checks the verdict
		e.using++
	}
}

func (w *world) use(e *end, op *Op) {
	e.pending, e.asked = append(e.pending, op), append(e.asked, w.version)
	w.post(e, &message{op: op})
}

func (w *world) granted(e *end) {
	c := e.come[0].call
	e.come = e.come[1:]
	if c.res == nil {
		e.h.NotGranted(c.a)
		return
	}
	d, fx, err := e.h.Granted(c.a, c.res)
	if err != nil {
		w.fail("%v", err)
	}
	if d != nil {
		e.d, e.cached, e.using = d, max(c.version, e.own), 1
		e.pending, e.asked, e.lasting = nil, nil, nil
	}
	w.client(e, fx)
}

// lose is the client's side of the end of a connection.
func (w *world) lose(e *end) {
	e.gone = true
	e.up, e.down, e.come, e.pending, e.asked, e.lasting = nil, nil, nil, nil, nil, nil
	w.client(e, e.h.Disconnect())
	e.drop = nil
}

func (w *world) wireActions(i int, e *end, add adder) {
	if len(e.up) > 0 && !e.cut {
		add(func(w *world) { w.arrive(w.ends[i]) }, "the server takes from %d", i)
	}
	if len(e.queue) > 0 && !e.cut {
		add(func(w *world) { w.send(w.ends[i]) }, "the server sends to %d", i)
	}
	if len(e.down) > 0 && !e.gone {
		add(func(w *world) { w.take(w.ends[i]) }, "%d takes from the wire", i)
	}
	switch {
	case e.cut:
	case e.ending: // until then, messages that arrive are answered
		add(func(w *world) {
			w.ends[i].cut = true
			w.server(w.g.Disconnect(w.ends[i].conn, false, w.now))
		}, "the connection of %d has ended", i)
	case e.gone:
		add(func(w *world) {
			w.ends[i].cut = true
			w.server(w.g.Disconnect(w.ends[i].conn, true, w.now))
		}, "the server learns that %d has ended", i)
	case w.left.cuts > 0:
		add(func(w *world) {
			w.left.cuts--
			w.ends[i].cut = true
			w.server(w.g.Disconnect(w.ends[i].conn, false, w.now))
		}, "the server loses %d", i)
	}
	if w.left.reclaims > 0 && !e.cut && e.conn.live > 0 {
		add(func(w *world) {
			w.left.reclaims--
			w.g.reclaimSome(w.ends[i].conn, anyGrant)
			w.server(w.g.effects())
		}, "the server reclaims from %d", i)
	}
}

func (w *world) callActions(i int, e *end, add adder) {
	for n, c := range e.calls {
		step := "answers"
		switch {
		case c.at != nil:
			step = "commits"
		case c.res == nil && !c.granted:
			step = "prepares"
		}
		add(func(w *world) { w.serveCall(w.ends[i], n) }, "the server %s ACQUIRE %d of %d", step, n, i)
	}
}

// serveCall advances ACQUIRE n by one step.
func (w *world) serveCall(e *end, n int) {
	c := e.calls[n]
	switch {
	case c.granted: // the reply is posted; a recall follows the reply
		e.calls = append(e.calls[:n:n], e.calls[n+1:]...)
		e.queue = append(e.queue, &message{call: c})
		var fx Effects
		if c.res != nil {
			fx = w.g.Replied(e.conn, Grant{c.res.Slot, c.res.Generation})
		}
		w.server(fx)
	case c.at == nil:
		at, why, fx := w.g.Prepare(e.conn, fileKey, w.now)
		c.at, c.granted = at, why != 0
		c.version = w.version
		w.server(fx)
	default:
		gt, why, fx := w.g.Commit(c.at, w.now)
		c.at, c.granted = nil, true
		if why == 0 {
			c.res = &AcquireRes{Slot: gt.Slot, Generation: gt.Generation, Types: FileData, LeaseMS: uint32(modelLease.Milliseconds())}
			for _, o := range e.out {
				if o.Slot == gt.Slot {
					w.fail("slot %d is used again before it has been returned", o.Slot)
				}
			}
		}
		w.server(fx)
	}
}

func (w *world) changeActions(add adder) {
	for by, left := range w.left.changes {
		if left > 0 && (by == 2 || !w.ends[by].cut) {
			add(func(w *world) {
				w.left.changes[by]--
				var conn *Conn
				if by < 2 {
					conn = w.ends[by].conn
				}
				c := &change{ch: new(Change), by: by}
				ready, fx := w.g.Change(c.ch, conn, fileKey, w.now)
				c.ready = ready
				w.changes = append(w.changes, c)
				w.server(fx)
			}, "a change by %d", by)
		}
	}
	if w.left.blind > 0 {
		add(func(w *world) {
			if c := (&change{ch: new(Change), by: 2, ready: true}); w.g.Blind(c.ch) {
				w.left.blind--
				w.changes = append(w.changes, c)
			}
		}, "a blind change")
	}
	for n, c := range w.changes {
		if c.ready {
			add(func(w *world) {
				c := w.changes[n]
				w.version++
				if c.by < 2 { // the client knows its own changes
					w.ends[c.by].own, w.ends[c.by].cached = w.version, w.version
				}
				w.g.Done(c.ch)
				w.changes = append(w.changes[:n:n], w.changes[n+1:]...)
			}, "change %d is made", n)
		} else if w.left.postpone {
			add(func(w *world) {
				w.g.Postpone(w.changes[n].ch, w.now)
				w.changes = append(w.changes[:n:n], w.changes[n+1:]...)
			}, "change %d is postponed", n)
		}
	}
}
