package roce

import (
	"errors"
	"fmt"
	"runtime/debug"
)

// ErrFault is wrapped by the error of a queue pair whose memory was not there:
// a mapping of a file that somebody has cut short.
var ErrFault = errors.New("roce: memory is not there")

// place copies src to dst, which has the same length. Either may lie in a
// mapping of a file; an access beyond the file's end is a local fault, and not
// the end of the process. What was copied until then stays.
func place(dst, src []byte) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if fault := recover(); fault != nil { // nothing else can go wrong here
			err = fmt.Errorf("%w: %v", ErrFault, fault)
		}
	}()
	copy(dst, src)
	return nil
}
