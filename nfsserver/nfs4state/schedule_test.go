package nfs4state

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/internal/racetest"
	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/vfs/locks"
)

// A stepAction is the action of one step of a schedule.
type stepAction uint8

const (
	doOpen stepAction = iota
	doTryOpen
	doSettle
	doUndo
	doClose
	doDowngrade
	doLock    // by the open
	doLockSet // by the lock stateid
	doTest
	doUnlock
	doFree // the lock stateid
	doFreeOpen
	doRevoke
	doBeginCall
	doEndCall
	doReboot   // a new incarnation
	doExchange // only EXCHANGE_ID of a new incarnation
	doUsurp    // EXCHANGE_ID by another principal
	doComplete
	doAddSession
	doDestroySession
	doDestroyClient
	doSpecial
	doEndSpecial
	doDelegate
	doReturnDelegation
	doRecall
	doLocal // a host process
	doSleep
	doSweep
	deeds
)

var deedNames = [deeds]string{
	"OPEN", "OPEN to be settled", "settle", "undo", "CLOSE", "OPEN_DOWNGRADE", "LOCK by the open", "LOCK by the lock stateid", "LOCKT", "LOCKU",
	"FREE_STATEID", "FREE_STATEID of the open", "revocation", "begin of a long call", "end of a long call", "reboot", "EXCHANGE_ID of a reboot",
	"EXCHANGE_ID of another principal", "RECLAIM_COMPLETE", "CREATE_SESSION", "DESTROY_SESSION", "DESTROY_CLIENTID", "special READ or WRITE",
	"end of special", "delegation", "DELEGRETURN", "recall", "local lock", "sleep", "Sweep",
}

// A step is one stepAction in a schedule, and its arguments, of which each
// action uses some.
type step struct {
	do           stepAction
	peer         int
	owner        int // the lock-owner
	through      int // the open-owner
	object       int
	access, deny uint32
	span         span
	kind         locks.Kind
	every        bool // the stateid has the seqid that matches any
	offset       int  // else: how far the seqid is from the current one
	wrong        bool // the call is for another object
	reclaim      bool
	sleep        time.Duration
}

func (st step) String() string {
	return fmt.Sprintf("client %d: %s, owner %d, open-owner %d, object %d, access %d, deny %d, cells %d to %d, kind %d, seqid %v %+d, wrong %v, %v",
		st.peer, deedNames[st.do], st.owner, st.through, st.object, st.access, st.deny, st.span.first, st.span.last, st.kind, st.every, st.offset,
		st.wrong, st.sleep)
}

// A modelRun takes the steps of a schedule with a State and with a model, which must
// agree.
type modelRun struct {
	*testState
	name  string
	model model
	host  cellHost
	peers [modelPeers]actor
	log   []step

	trial    int // the number of the last one
	trials   map[int]*Trial
	specials []SpecialUse
	uses     [][2]int // object and kind of each entry in specials
}

// An actor is a client as the State sees it.
type actor struct {
	owner    string
	verifier int
	id       uint64
	sequence uint32 // csa_sequence for the next CREATE_SESSION
	client   *client
	sessions []*Session

	opens   [modelOwners][modelObjects]nfs4.StateID
	sets    [modelOwners][modelObjects][modelOwners]nfs4.StateID
	revoked []nfs4.StateID

	delegations [modelObjects]*Delegation
}

func newModelRun(t testing.TB, name string) *modelRun {
	r := &modelRun{testState: newTestState(manyGoroutines{t}), name: name, trials: make(map[int]*Trial)}
	r.model.now = r.config.Now()
	r.host.model = &r.model
	for i := range r.peers {
		r.peers[i].owner = ownerNames[i]
	}
	return r
}

var ownerNames = [...]string{"0", "1", "2"}

// agree fails the test, with all steps until then, if the State and the model
// differ.
func agree[T comparable](r *modelRun, what string, state, model T) {
	if state == model {
		return
	}
	r.t.Helper()
	var steps strings.Builder
	for _, st := range r.log {
		fmt.Fprintln(&steps, st)
	}
	r.t.Fatalf("%s: %s is %v, and %v by the model, after\n%s", r.name, what, state, model, &steps)
}

// connectPeer gives a client that has lost everything a new record.
func (r *modelRun) connectPeer(i int) {
	p, a := &r.model.peers[i], &r.peers[i]
	if a.client != nil {
		agree(r, "the record of a client that has ended is gone", a.client.ended, true)
		for _, s := range a.sessions {
			agree(r, "SEQUENCE of a client that has ended", r.beginNextCall(s, 0).Status, nfs4.ErrBadSession)
		}
		agree(r, "CREATE_SESSION of it", r.CreateSession(createArgs(a.id, a.sequence, 0)).Status, nfs4.ErrStaleClientID)
	}
	id, sequence, confirmed, status := r.ExchangeID(exchangeArgs(a.owner, a.verifier, 0))
	agree(r, "EXCHANGE_ID", status, nfs4.OK)
	agree(r, "a new record is confirmed", confirmed, false)
	r.confirmPeer(i, id, sequence)
	agree(r, "RECLAIM_COMPLETE", r.ReclaimComplete(a.sessions[0]), nfs4.OK)
	p.complete = true
}

// confirmPeer confirms a record by a session, in place of the earlier incarnation.
func (r *modelRun) confirmPeer(i int, id uint64, sequence uint32) {
	p, a := &r.model.peers[i], &r.peers[i]
	s := r.mustCreateSession(callableArgs(id, sequence))
	a.id, a.sequence, a.client, a.sessions, a.revoked = id, sequence+1, s.client, []*Session{s}, nil
	*p = peer{confirmed: true, sessions: 1, used: r.model.now}
}

// callableArgs returns the arguments of CREATE_SESSION of a client that can be called back.
func callableArgs(id uint64, sequence uint32) *Create {
	a := createArgs(id, sequence, 0)
	a.Flags, a.SecParms.None = nfs4.SessionConnBackChan, true
	return a
}

// addSession creates a further session.
func (r *modelRun) addSession(i int) {
	p, a := &r.model.peers[i], &r.peers[i]
	a.sessions = append(a.sessions, r.mustCreateSession(callableArgs(a.id, a.sequence)))
	a.sequence++
	p.sessions++
	p.used = r.model.now
}

// takeStep takes a step.
func (r *modelRun) takeStep(st step) {
	r.log = append(r.log, st)
	switch st.do {
	case doSleep:
		r.advanceClock(st.sleep)
		r.model.now += st.sleep
	case doSweep:
		r.Sweep()
		r.model.sweepPeers()
	case doLocal:
		r.lockLocally(st)
	case doSpecial, doEndSpecial:
		r.useSpecial(st)
	case doSettle, doUndo:
		r.settleTrial(st)
	case doUsurp:
		r.exchangeAsOther(st)
	default:
		r.callInSession(st)
	}
	r.compareWithModel()
}

// lockLocally locks cells for a host process, unless a client's lock conflicts.
func (r *modelRun) lockLocally(st step) {
	taken := r.model.unionKinds(0)
	for at := st.span.first; at <= st.span.last; at++ {
		if kindsConflict(taken[at], st.kind) {
			return
		}
	}
	for at := st.span.first; at <= st.span.last; at++ {
		r.model.local[0][at] = st.kind
	}
}

// useSpecial begins or ends a READ or WRITE with a special stateid.
func (r *modelRun) useSpecial(st step) {
	if st.do == doEndSpecial {
		if n := len(r.specials); n > 0 {
			r.specials[0].End()
			r.model.specials[r.uses[0][0]][r.uses[0][1]]--
			r.specials, r.uses = r.specials[1:], r.uses[1:]
		}
		return
	}
	access := st.access&1 + 1
	use, status := r.BeginSpecial([]byte(modelKeys[st.object]), access, false)
	expected := nfs4.ErrLocked
	if r.model.checkShare(nil, st.object, access) {
		expected = nfs4.OK
	}
	agree(r, "a special READ or WRITE begins", status, expected)
	if status == nfs4.OK {
		r.specials, r.uses = append(r.specials, use), append(r.uses, [2]int{st.object, int(access - 1)})
		r.model.specials[st.object][access-1]++
	}
}

// settleTrial ends a trial: the oldest one, or the newest if the step has owner 1.
func (r *modelRun) settleTrial(st step) {
	if len(r.trials) == 0 {
		return
	}
	numbers := slices.Sorted(maps.Keys(r.trials))
	n := numbers[st.owner%len(numbers)*(len(numbers)-1)]
	t := r.trials[n]
	delete(r.trials, n)
	undo := st.do == doUndo
	if undo {
		r.RevertTrial(t)
	} else {
		r.KeepTrial(t)
	}
	r.model.settleTrial(n, undo)
	// The seqid is the State's to choose: a client has not seen that of an OPEN that failed.
	for i := range r.peers {
		for owner := range modelOwners {
			for object := range modelObjects {
				o := &r.model.peers[i].opens[owner][object]
				if h := r.findClientHolding(&Session{client: r.peers[i].client}, &r.peers[i].opens[owner][object]); h != nil && o.stateIDState == held {
					o.seqid = h.seqid.Load()
				}
			}
		}
	}
}

// exchangeAsOther sends EXCHANGE_ID as another principal, whose record is never
// confirmed.
func (r *modelRun) exchangeAsOther(st step) {
	p, a := &r.model.peers[st.peer], &r.peers[st.peer]
	opens, _ := p.countStateIDs()
	expected := nfs4.OK
	if p.confirmed && (p.sessions > 0 || opens > 0) && !r.model.isSilent(p) {
		expected = nfs4.ErrClidInUse
	}
	_, _, _, status := r.ExchangeID(exchangeArgs(a.owner, 99, 9))
	agree(r, "EXCHANGE_ID of another principal", status, expected)
	if status == nfs4.OK {
		r.model.removePeer(p)
	}
}

// callInSession takes a step of a client, with a call of its session around.
func (r *modelRun) callInSession(st step) {
	p, a := &r.model.peers[st.peer], &r.peers[st.peer]
	if !p.confirmed {
		r.connectPeer(st.peer)
	}
	switch st.do {
	case doDestroySession:
		r.destroySession(st)
		return
	case doDestroyClient:
		expected := nfs4.OK
		if opens, _ := p.countStateIDs(); p.sessions > 0 || opens > 0 {
			expected = nfs4.ErrClientIDBusy
		}
		agree(r, deedNames[st.do], r.DestroyClientID(a.id), expected)
		if expected == nfs4.OK {
			r.model.removePeer(p)
		}
		return
	case doExchange, doReboot:
		r.rebootPeer(st)
		return
	case doRevoke:
		r.revokeOpenOf(st)
		return
	case doRecall:
		r.recallDelegation(st)
		return
	case doAddSession:
		if p.sessions < 3 {
			r.addSession(st.peer)
		}
		return
	}
	if p.sessions == 0 {
		r.addSession(st.peer)
	}
	s := a.sessions[len(a.sessions)-1]
	agree(r, "SEQUENCE begins a call", r.beginNextCall(s, 0).New, true)
	p.used = r.model.now
	wasRunning := p.running
	p.running = true
	r.runOperation(st, s)
	p.running = wasRunning || st.do == doBeginCall
	s.End(0, nil, false, false)
	if st.do == doEndCall && wasRunning {
		a.sessions[0].End(1, nil, false, false)
		p.running = false
	}
	agree(r, "SEQ4_STATUS_ADMIN_STATE_REVOKED", r.SequenceFlags(s)&nfs4.SeqAdminStateRevoked != 0, p.revoked > 0)
}

// destroySession destroys the last session of a client.
func (r *modelRun) destroySession(st step) {
	p, a := &r.model.peers[st.peer], &r.peers[st.peer]
	last := p.sessions - 1
	if last < 0 {
		return
	}
	expected := nfs4.OK
	if last == 0 && p.running {
		expected = nfs4.ErrDelay
	}
	agree(r, deedNames[st.do], r.DestroySession(a.sessions[last].ID, nil), expected)
	if expected == nfs4.OK {
		p.sessions--
		a.sessions = a.sessions[:last]
	}
}

// rebootPeer starts a new incarnation of a client. doExchange only sends
// EXCHANGE_ID.
func (r *modelRun) rebootPeer(st step) {
	p, a := &r.model.peers[st.peer], &r.peers[st.peer]
	a.verifier++
	id, sequence, _, status := r.ExchangeID(exchangeArgs(a.owner, a.verifier, 0))
	agree(r, "EXCHANGE_ID of a reboot", status, nfs4.OK)
	switch {
	case st.do == doExchange:
		a.verifier--
	case p.running:
		agree(r, "CREATE_SESSION while a call of the earlier incarnation runs", r.CreateSession(createArgs(id, sequence, 0)).Status, nfs4.ErrDelay)
		a.verifier--
	default:
		r.confirmPeer(st.peer, id, sequence)
	}
}

// revokeOpenOf revokes an open and the locks through it.
func (r *modelRun) revokeOpenOf(st step) {
	p, a := &r.model.peers[st.peer], &r.peers[st.peer]
	o := r.findClientHolding(&Session{client: a.client}, &a.opens[st.through][st.object])
	if o == nil || o.open == nil {
		return
	}
	r.Revoke(func(file any) bool { return file == o.open.File })
	p.revoked++
	a.revoked = append(a.revoked, a.opens[st.through][st.object])
	for owner := range modelOwners {
		if p.sets[owner][st.object][st.through].stateIDState == held {
			p.revoked++
			a.revoked = append(a.revoked, a.sets[owner][st.object][st.through])
		}
	}
	p.closeOpen(st.through, st.object, revoked)
}

// stateID returns a stateid with the seqid of a step.
func (st *step) stateID(id nfs4.StateID, seqid uint32) nfs4.StateID {
	id.SeqID = seqid + uint32(int32(st.offset))
	if st.every {
		id.SeqID = 0
	}
	return id
}

// runOperation executes a step's call.
func (r *modelRun) runOperation(st step, s *Session) {
	p, a := &r.model.peers[st.peer], &r.peers[st.peer]
	open, set := &p.opens[st.through][st.object], &p.sets[st.owner][st.object][st.through]
	openID, setID := &a.opens[st.through][st.object], &a.sets[st.owner][st.object][st.through]
	byOpen, bySet := st.stateID(*openID, open.seqid), st.stateID(*setID, set.seqid)
	if int(open.seqid)+st.offset <= 0 || int(set.seqid)+st.offset <= 0 {
		st.every = true // there is no such seqid yet
		byOpen.SeqID, bySet.SeqID = 0, 0
	}
	statusOfOpen, statusOfSet := open.statusFor(st.every, st.offset), set.statusFor(st.every, st.offset)
	switch st.do {
	case doDelegate:
		r.operateDelegate(st, s)
	case doReturnDelegation:
		if p.delegations[st.object] != nfs4.DelegateNone {
			id := a.delegations[st.object].StateID()
			agree(r, "DELEGRETURN", r.ReturnDelegation(s, &id), nfs4.OK)
			p.delegations[st.object] = nfs4.DelegateNone
		}
	case doOpen, doTryOpen:
		r.operateOpen(st, s)
	case doClose:
		agree(r, "CLOSE", r.Close(s, &byOpen), statusOfOpen)
		if statusOfOpen == nfs4.OK {
			p.closeOpen(st.through, st.object, unknown)
		}
	case doDowngrade:
		expected := statusOfOpen
		if expected == nfs4.OK {
			expected = open.downgradeModes(st.access, st.deny)
		}
		id, status := r.Downgrade(s, &byOpen, st.access, st.deny)
		agree(r, "OPEN_DOWNGRADE", status, expected)
		if expected == nfs4.OK {
			agree(r, "its stateid", id, nfs4.StateID{SeqID: open.seqid, Other: openID.Other})
		}
	case doLock:
		r.operateLock(st, s, byOpen, true, statusOfOpen)
	case doLockSet:
		r.operateLock(st, s, bySet, false, statusOfSet)
	case doTest:
		r.operateTest(st, s)
	case doUnlock:
		lock := r.lockArgs(st, bySet, false)
		expected := wrongFirst(st, *setID, set.stateIDState, statusOfSet)
		id, status := r.Unlock(s, &lock)
		agree(r, "LOCKU", status, expected)
		if expected == nfs4.OK {
			p.unlockCells(st.owner, st.object, st.through, st.span)
			agree(r, "its stateid", id, nfs4.StateID{SeqID: set.seqid, Other: setID.Other})
		}
	case doFree:
		r.freeStateID(st, s, bySet, statusOfSet)
	case doFreeOpen:
		expected := statusOfOpen
		if expected == nfs4.OK {
			expected = nfs4.ErrLocksHeld
		}
		if expected != nfs4.ErrAdminRevoked {
			agree(r, "FREE_STATEID of an open", r.FreeStateID(s, &byOpen), expected)
		} else if len(a.revoked) > 0 {
			r.freeRevoked(st.peer, s, 0)
		}
	case doBeginCall:
		if !r.isRunning(st.peer) {
			agree(r, "a long call begins", r.beginNextCall(a.sessions[0], 1).New, true)
		}
	case doComplete:
		expected := nfs4.OK
		if p.complete {
			expected = nfs4.ErrCompleteAlready
		}
		agree(r, "RECLAIM_COMPLETE", r.ReclaimComplete(s), expected)
		p.complete = true
	}
}

// isRunning reports whether the long call of a client runs.
func (r *modelRun) isRunning(i int) bool { return r.peers[i].sessions[0].slots[1].running }

// wrongFirst returns the status of a call for another object than its stateid's,
// which comes before that of a wrong seqid.
func wrongFirst(st step, id nfs4.StateID, s stateIDState, status nfs4.Status) nfs4.Status {
	if st.wrong && s == held {
		return nfs4.ErrBadStateID
	}
	return status
}

func (r *modelRun) operateOpen(st step, s *Session) {
	p, a := &r.model.peers[st.peer], &r.peers[st.peer]
	args := OpenFile{
		Owner: []byte(ownerNames[st.through]), Key: modelKeys[st.object], Access: st.access, Deny: st.deny, Reclaim: st.reclaim,
	}
	trial := 0
	if st.do == doTryOpen {
		trial = r.trial + 1
		args.Trial = new(Trial)
	}
	expected := nfs4.ErrNoGrace
	if !st.reclaim {
		expected = r.model.openObject(p, st.through, st.object, st.access, st.deny, trial)
	}
	_, id, status := r.OpenFile(s, &args, new(int))
	agree(r, "OPEN", status, expected)
	if status != nfs4.OK {
		return
	}
	o := &p.opens[st.through][st.object]
	if o.seqid > 1 {
		agree(r, "the stateid of a further OPEN", id.Other, a.opens[st.through][st.object].Other)
	}
	agree(r, "the seqid of OPEN", id.SeqID, o.seqid)
	a.opens[st.through][st.object] = id
	if trial != 0 {
		r.trial, r.trials[trial] = trial, args.Trial
	}
}

func (r *modelRun) operateDelegate(st step, s *Session) {
	p, a := &r.model.peers[st.peer], &r.peers[st.peer]
	kind := nfs4.DelegateRead
	if st.kind == locks.Exclusive {
		kind = nfs4.DelegateWrite
	}
	expected := r.model.delegate(p, st.object, kind)
	d, status := r.Delegate(s, &Delegate{Key: modelKeys[st.object], Write: kind == nfs4.DelegateWrite}, new(int))
	agree(r, "a delegation", status, expected)
	if status == nfs4.OK {
		a.delegations[st.object] = d
	}
}

// recallDelegation recalls a delegation, which ends its client if that is silent.
func (r *modelRun) recallDelegation(st step) {
	p := &r.model.peers[st.peer]
	if p.delegations[st.object] == nfs4.DelegateNone {
		return
	}
	silent := r.model.isSilent(p)
	agree(r, "a recall ends at once", r.Recall(r.peers[st.peer].delegations[st.object]) == 0, silent)
	if silent {
		r.model.removePeer(p)
	}
}

// lockArgs returns the arguments for LOCK and LOCKU.
func (r *modelRun) lockArgs(st step, id nfs4.StateID, byOpen bool) Lock {
	object := st.object
	if st.wrong {
		object = 1 - object
	}
	lock := Lock{
		StateID: id, New: byOpen, Key: modelKeys[object], Range: st.span.byteRange(), Exclusive: st.kind == locks.Exclusive, Reclaim: st.reclaim,
		Owner: []byte(ownerNames[st.owner]),
	}
	if object == 0 {
		lock.Host, lock.Storage = r.openHost, "storage"
	}
	return lock
}

func (r *modelRun) openHost() (HostLocks, nfs4.Status) {
	if r.host.open {
		r.host.fault = "two holders of the host's locks are open"
	}
	r.host.open = true
	return &r.host, nfs4.OK
}

func (r *modelRun) operateLock(st step, s *Session, id nfs4.StateID, byOpen bool, status nfs4.Status) {
	p, a := &r.model.peers[st.peer], &r.peers[st.peer]
	o, set := &p.opens[st.through][st.object], &p.sets[st.owner][st.object][st.through]
	standing, named := o.stateIDState, a.opens[st.through][st.object]
	if !byOpen {
		standing, named = set.stateIDState, a.sets[st.owner][st.object][st.through]
	}
	expected := wrongFirst(st, named, standing, status)
	access := nfs4.ShareRead
	if st.kind == locks.Exclusive {
		access = nfs4.ShareWrite
	}
	var may [modelPeers]bool
	switch {
	case expected != nfs4.OK:
	case o.unionModes()&access == 0:
		expected = nfs4.ErrOpenMode
	case st.reclaim:
		expected = nfs4.ErrNoGrace
	case !p.complete:
		expected = nfs4.ErrGrace
	default:
		expected, may = r.model.testLock(p, st.owner, st.object, st.span, st.kind)
	}
	lock := r.lockArgs(st, id, byOpen)
	got, d, state := r.Lock(s, &lock)
	agree(r, "LOCK", state, expected)
	r.mayHaveEnded(may)
	switch expected {
	case nfs4.ErrDenied:
		r.checkDenied(st, d)
	case nfs4.OK:
		known := set.stateIDState == held
		p.lockCells(st.owner, st.object, st.through, st.span, st.kind)
		agree(r, "the seqid of LOCK", got.SeqID, set.seqid)
		if known {
			agree(r, "the stateid of a further LOCK", got.Other, a.sets[st.owner][st.object][st.through].Other)
		}
		a.sets[st.owner][st.object][st.through] = got
	}
}

func (r *modelRun) operateTest(st step, s *Session) {
	st.wrong = false
	lock := r.lockArgs(st, nfs4.StateID{}, true)
	expected, may := r.model.testLock(&r.model.peers[st.peer], st.owner, st.object, st.span, st.kind)
	d, status := r.TestLock(s, &lock)
	agree(r, "LOCKT", status, expected)
	r.mayHaveEnded(may)
	if expected == nfs4.ErrDenied {
		r.checkDenied(st, d)
	}
}

// mayHaveEnded removes from the model those silent clients that the State has
// removed.
func (r *modelRun) mayHaveEnded(may [modelPeers]bool) {
	for i := range may {
		if may[i] && r.peers[i].client.ended {
			r.model.removePeer(&r.model.peers[i])
		}
	}
}

// checkDenied checks that a lock that was returned as conflicting does
// conflict.
func (r *modelRun) checkDenied(st step, d Denied) {
	s, ok := spanOf(d.Range)
	agree(r, "LOCK4denied is of whole cells", ok, true)
	agree(r, "it overlaps", s.first <= st.span.last && st.span.first <= s.last, true)
	kind := locks.KindOf(d.Exclusive)
	agree(r, "it is in the way", kindsConflict(kind, st.kind), true)
	for at := s.first; at <= s.last; at++ {
		has := r.model.local[st.object][at]
		if d.ClientID != denied0 {
			i := slices.IndexFunc(r.peers[:], func(a actor) bool { return a.id == d.ClientID })
			owner := slices.Index(ownerNames[:modelOwners], d.Owner)
			agree(r, "its owner is known", i >= 0 && owner >= 0 && (i != st.peer || owner != st.owner), true)
			has = r.model.peers[i].bytes[owner][st.object][at].kind
		}
		agree(r, fmt.Sprint("the kind of its cell ", at), has, kind)
	}
}

func (r *modelRun) freeStateID(st step, s *Session, id nfs4.StateID, expected nfs4.Status) {
	p, a := &r.model.peers[st.peer], &r.peers[st.peer]
	if expected == nfs4.ErrAdminRevoked {
		r.freeRevoked(st.peer, s, slices.IndexFunc(a.revoked, func(other nfs4.StateID) bool { return other.Other == id.Other }))
		return
	}
	if expected == nfs4.OK && p.locksThrough(st.owner, st.object, st.through) {
		expected = nfs4.ErrLocksHeld
	}
	agree(r, "FREE_STATEID", r.FreeStateID(s, &id), expected)
	if expected == nfs4.OK {
		p.sets[st.owner][st.object][st.through] = modelSet{}
	}
}

// freeRevoked frees a stateid that was revoked.
func (r *modelRun) freeRevoked(i int, s *Session, at int) {
	p, a := &r.model.peers[i], &r.peers[i]
	id := a.revoked[at]
	a.revoked = slices.Delete(a.revoked, at, at+1)
	p.revoked--
	for owner := range modelOwners {
		for object := range modelObjects {
			if a.opens[owner][object].Other == id.Other {
				p.opens[owner][object].stateIDState = unknown
			}
			for through := range modelOwners {
				if a.sets[owner][object][through].Other == id.Other {
					p.sets[owner][object][through].stateIDState = unknown
				}
			}
		}
	}
	agree(r, "TEST_STATEID of what was revoked", r.TestStateID(s, &id), nfs4.ErrAdminRevoked)
	agree(r, "FREE_STATEID of it", r.FreeStateID(s, &id), nfs4.OK)
	agree(r, "TEST_STATEID after that", r.TestStateID(s, &id), nfs4.ErrBadStateID)
}

// compareWithModel compares the whole of the State with the model.
func (r *modelRun) compareWithModel() {
	r.WaitForHostLocks()
	agree(r, "a fault of a call of the host", r.host.fault, "")
	agree(r, "the host's locks", r.host.kinds, r.model.unionKinds(0))
	agree(r, "the host has the object open", r.host.open, r.model.unionKinds(0) != cellKinds{})
	var ids, ranges, denying int
	for i := range r.peers {
		p, a := &r.model.peers[i], &r.peers[i]
		opens, sets := p.countStateIDs()
		ids += opens + sets + p.revoked
		ranges += p.countRanges()
		agree(r, fmt.Sprint("client ", i, " stands"), a.client != nil && !a.client.ended, p.confirmed)
		if !p.confirmed {
			continue
		}
		for object, kind := range p.delegations {
			agree(r, "its delegation", r.DelegationType(&Session{client: a.client}, modelKeys[object]), kind)
		}
		agree(r, "its lease has expired", a.client.silentFor(r.model.now) > testLease, r.model.isSilent(p))
		for owner := range p.opens {
			for object := range p.opens[owner] {
				o := &p.opens[owner][object]
				if o.stateIDState != held {
					continue
				}
				if o.unionModes()>>denyShift != 0 {
					denying++
				}
				h := r.findClientHolding(&Session{client: a.client}, &a.opens[owner][object])
				agree(r, "an open stands", h != nil && h.open != nil, true)
				agree(r, "its modes", h.open.modes.Load(), o.unionModes())
				agree(r, "its seqid", h.seqid.Load(), o.seqid)
			}
		}
	}
	agree(r, "stateids", r.usage.get(stateIDs), ids)
	agree(r, "locks", r.usage.get(lockRanges), ranges)
	agree(r, "opens with deny modes", r.denyingOpens.Load(), int64(denying))
}

// checkFinish removes everything, and checks that nothing is left.
func (r *modelRun) checkFinish() {
	for i := range r.peers {
		if r.model.peers[i].confirmed && r.model.peers[i].running {
			r.takeStep(step{do: doEndCall, peer: i})
		}
	}
	for len(r.specials) > 0 {
		r.takeStep(step{do: doEndSpecial})
	}
	for len(r.trials) > 0 {
		r.takeStep(step{do: doUndo})
	}
	r.takeStep(step{do: doSleep, sleep: 2 * defaultCourtesy})
	r.takeStep(step{do: doSweep})
	r.checkEmpty()
	agree(r, "objects on the host", len(r.allHostFiles()), 0)
}

// often is the weight of each action in a random schedule.
var often = [deeds]int{
	doOpen: 30, doTryOpen: 6, doSettle: 3, doUndo: 3, doClose: 8, doDowngrade: 6, doLock: 22, doLockSet: 12, doTest: 8, doUnlock: 10, doFree: 3,
	doFreeOpen: 2, doRevoke: 2, doBeginCall: 3, doEndCall: 5, doReboot: 2, doExchange: 1, doUsurp: 2, doComplete: 3, doAddSession: 2,
	doDelegate: 12, doReturnDelegation: 3, doRecall: 2, doDestroySession: 4, doDestroyClient: 4, doSpecial: 4, doEndSpecial: 5, doLocal: 8, doSleep: 14, doSweep: 4,
}

var sleeps = [...]time.Duration{
	0, 1, time.Second, testLease / 3, testLease, testLease + 1, 2*testLease - 1, 2*testLease + 1, defaultCourtesy, defaultCourtesy + 1,
}

// randomDeeds has each action as many times as its weight.
var randomDeeds = func() (list []stepAction) {
	for do, n := range often {
		list = append(list, slices.Repeat([]stepAction{stepAction(do)}, n)...)
	}
	return list
}()

// randomStep returns a step, mostly of state that there is.
func (r *modelRun) randomStep(random *rand.Rand) step {
	first := random.IntN(cells)
	st := step{
		do: randomDeeds[random.IntN(len(randomDeeds))], peer: random.IntN(modelPeers), owner: random.IntN(modelOwners),
		through: random.IntN(modelOwners), object: random.IntN(modelObjects), access: 1 + random.Uint32N(3),
		span: span{first, first + random.IntN(cells-first)}, kind: locks.Shared + locks.Kind(random.IntN(2)), every: random.IntN(2) == 0,
		sleep: sleeps[random.IntN(len(sleeps))],
	}
	if st.sleep > 2*testLease+1 && random.IntN(4) > 0 {
		st.sleep = testLease / 5
	}
	if random.IntN(4) == 0 {
		st.deny = random.Uint32N(4)
	} else if st.do == doOpen {
		st.access |= random.Uint32N(4)
	}
	switch random.IntN(24) {
	case 0:
		st.every, st.offset = false, -1
	case 1:
		st.every, st.offset = false, 1
	case 2:
		st.wrong = true
	case 3:
		st.reclaim = true
	case 4:
		st.access = 0
	}
	if st.do == doLocal {
		st.kind = locks.Kind(random.IntN(3))
	}
	for range 20 {
		p := &r.model.peers[st.peer]
		switch st.do {
		case doClose, doDowngrade, doLock, doRevoke, doFreeOpen, doDelegate:
			if p.opens[st.through][st.object].stateIDState == unknown {
				st.peer, st.through, st.object = random.IntN(modelPeers), random.IntN(modelOwners), random.IntN(modelObjects)
			}
		case doLockSet, doUnlock, doFree:
			if p.sets[st.owner][st.object][st.through].stateIDState == unknown {
				st.peer, st.owner = random.IntN(modelPeers), random.IntN(modelOwners)
				st.through, st.object = random.IntN(modelOwners), random.IntN(modelObjects)
			}
		}
	}
	return st
}

// TestSchedules takes random steps of three clients, host processes and time with
// a State and with a model. Locks split, merge and change their kind in place
// (R8881-18.10.4-4).
func TestSchedules(t *testing.T) {
	n := 10_000
	if testing.Short() || racetest.Enabled {
		n = 300
	}
	for seed := range uint64(racetest.Schedules(n)) {
		runSchedule(t, seed)
	}
}

func runSchedule(t *testing.T, seed uint64) {
	random := rand.New(rand.NewPCG(seed, 21))
	r := newModelRun(t, fmt.Sprint("seed ", seed))
	if seed%8 == 0 { // a journal that works changes nothing
		config := r.config
		config.Journal = new(fakeJournal)
		r.State = New(config)
	}
	for range 80 {
		r.takeStep(r.randomStep(random))
	}
	r.checkFinish()
}
