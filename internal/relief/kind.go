package relief

// kinds is how many kinds of calls are distinguished, up to hash collisions,
// forms how many forms calls of a procedure have at most, and maxAway bounds the
// calls that others serve after a slow one.
const (
	kinds   = 128
	forms   = 3
	maxAway = 256
)

// Kinds are the kinds of a connection's calls. Only its reader uses them.
type Kinds [kinds]Kind

// Of returns the kind of the calls of a procedure that take about as long: those
// of which the server says the same (alike), in one form, which is less than
// forms. The forms differ in what comes with a call, or goes with its reply.
func (k *Kinds) Of(prog, proc, alike, form uint32) *Kind {
	return &k[(forms*(31*prog+proc+7*alike)+form)%kinds]
}

// A Kind remembers how quick calls of one kind were. The zero value is quick.
type Kind struct {
	away uint16 // how many of the next calls others serve
	next uint16 // about half of away after the next slow call
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
		k.slow()
	} else if k.next > 0 {
		k.next--
	}
}

// Away returns how many of the next calls others will serve.
func (k *Kind) Away() int { return int(k.away) }

// slow records a call that kept the reader. If one call in some tens is slow,
// the reader ends up serving few of that kind.
func (k *Kind) slow() {
	k.next = min(2*k.next+1, maxAway)
	k.away = k.next
}
