package oncrpc

// A Trace follows one call on its way through a server, for a picture of where its
// time went. A transport gets it for each call, as the call arrives, and passes it on in
// Reply.Trace; all rooms below tell it what they begin and end. Without one, which is the
// default, a room compares a pointer with nil. At any time a single goroutine owns the
// call, and calls the methods. They must not wait.
type Trace interface {
	// Begin begins a stage of the way.
	Begin(s Stage)

	// End ends a stage that has begun. Its name says what it was of: an operation, or
	// the path of an export, never a file; its status is a word of the protocol. Both
	// may be "".
	End(s Stage, name, status string)

	// Done ends the way: the transport has sent the reply, or gives the call up. No
	// method is called any more.
	Done()
}

// A Stage is a part of a call's way through a server.
type Stage uint8

// The stages of a call's way. StageOperation and StageFiles are within StageProgram.
const (
	StageProgram   Stage = iota // the handler of the program
	StageOperation              // one operation of a COMPOUND
	StageFiles                  // a file system works for the call
	NumStages
)

// EndTrace ends the reply's trace, if it has one. The transport calls it.
func (r *Reply) EndTrace() {
	if t := r.Trace; t != nil {
		r.Trace = nil
		t.Done()
	}
}
