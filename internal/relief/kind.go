package relief

// kindCount is the number of distinguished kinds of calls, up to hash collisions,
// formCount the maximum number of forms for a procedure's calls, and maxAway bounds
// how many calls others serve after a slow one.
const (
	kindCount = 128
	formCount = 3
	maxAway   = 256
)

// Kinds are the kinds of a connection's calls. Only its reader uses them.
type Kinds [kindCount]Kind

// Of returns the kind for those calls to a procedure that take about the same time:
// those to which the server gives the same number (alike), in one form, which is
// less than formCount. The forms differ in the data that come with a call, or leave
// with its reply.
func (k *Kinds) Of(prog, proc, alike, form uint32) *Kind {
	return &k[(formCount*(31*prog+proc+7*alike)+form)%kindCount]
}

// A Kind records how quick one kind's calls were. The zero value is quick.
type Kind struct {
	away     uint16 // number of next calls that others serve
	nextAway uint16 // about half the value of away after the next slow call
}

// Takes reports whether the reader should serve the next call. Otherwise
// another goroutine must, because a call was slow.
func (k *Kind) Takes() bool {
	if k.away > 0 {
		k.away--
		return false
	}
	return true
}

// Note records whether a call that the reader served was slow.
func (k *Kind) Note(slow bool) {
	if slow {
		k.recordSlow()
	} else if k.nextAway > 0 {
		k.nextAway--
	}
}

// Away returns the number of next calls that others will serve.
func (k *Kind) Away() int { return int(k.away) }

// recordSlow records a call that occupied the reader for long. If one call in some
// tens is slow, the reader ends up serving few of that kind.
func (k *Kind) recordSlow() {
	k.nextAway = min(2*k.nextAway+1, maxAway)
	k.away = k.nextAway
}
