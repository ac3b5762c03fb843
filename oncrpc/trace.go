package oncrpc

// A Trace records the stages of one call in a server, and so where its time goes. A
// transport gets a Trace when the call arrives, or nil, and passes it on in Reply.Trace; the
// packages below report the stages that they begin and end. Without a Trace, which is the
// default, they only compare a pointer with nil. At any time a single goroutine owns the
// call, and calls the methods. They must not wait.
type Trace interface {
	// Begin begins a stage.
	Begin(s Stage)

	// End ends a stage that has begun. name is an operation or an export's path, never a
	// file; status is a protocol status. Both may be "".
	End(s Stage, name, status string)

	// Done ends the trace: the transport has sent the reply, or gives the call up. No
	// method is called afterwards.
	Done()
}

// A Stage is a part of a call's processing in a server.
type Stage uint8

// The stages of a call. StageOperation and StageFiles are within StageProgram.
const (
	StageProgram   Stage = iota // the program's handler
	StageOperation              // one COMPOUND operation
	StageFiles                  // a file system operation
	NumStages
)

// EndTrace ends the reply's trace, if any. The transport calls it.
func (r *Reply) EndTrace() {
	if t := r.Trace; t != nil {
		r.Trace = nil
		t.Done()
	}
}
