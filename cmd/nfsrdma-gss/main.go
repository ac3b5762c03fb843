package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/tickets/wire"
)

// The library keeps its last error for each thread, and so does the kernel some
// keyrings.
func init() { runtime.LockOSThread() }

func main() {
	name := [...]byte{'n', 'f', 's', 'r', 'd', 'm', 'a', '-', 'g', 's', 's', 0}
	_ = unix.Prctl(unix.PR_SET_NAME, uintptr(unsafe.Pointer(&name)), 0, 0, 0) // a mount starts it by a descriptor, not by its name
	if err := forbidDumps(); err != nil {
		fmt.Fprintln(os.Stderr, "nfsrdma-gss: core dumps cannot be turned off:", err)
		os.Exit(1)
	}
	if err := serve(os.Stdin, os.Stdout, begin); err != nil {
		fmt.Fprintln(os.Stderr, "nfsrdma-gss:", err)
		os.Exit(1)
	}
}

// forbidDumps turns core dumps off, because they would have keys.
func forbidDumps() error { return unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{}) }

// An initiator is the initiator's end of a context in the making.
type initiator interface {
	// step takes the acceptor's answer, nil at first, and returns the next token, if
	// there is one. Errors are of type *wire.Failure.
	step(answer []byte) (token []byte, complete bool, err error)

	// keys returns the keys of the complete context. Errors are of type
	// *wire.Failure.
	keys() (*wire.Keys, error)
}

// maxRounds is the number of tokens that an acceptor may send. Kerberos needs one.
const maxRounds = 4

// serve answers one request. It returns the errors that the mount cannot be told.
func serve(in io.Reader, out io.Writer, begin func(*wire.Request) (initiator, []byte, error)) error {
	keys, err := exchange(in, out, begin)
	if failure, ok := errors.AsType[*wire.Failure](err); ok {
		return wire.Write(out, failure)
	}
	if err != nil {
		return err
	}
	return wire.Write(out, keys)
}

// exchange passes tokens until the context is complete.
func exchange(in io.Reader, out io.Writer, begin func(*wire.Request) (initiator, []byte, error)) (*wire.Keys, error) {
	request, err := receive[*wire.Request](in)
	if errors.Is(err, wire.ErrVersion) {
		return nil, &wire.Failure{Reason: wire.BadVersion, Words: fmt.Sprintf("nfsrdma-gss speaks version %d of its protocol alone: install it and mountrdma of the same release", wire.Version)}
	}
	if err != nil {
		return nil, err
	}
	maker, token, err := begin(request)
	if err != nil {
		return nil, err
	}
	for range maxRounds {
		if err := wire.Write(out, &wire.Token{Token: token}); err != nil {
			return nil, err
		}
		answer, err := receive[*wire.Token](in)
		if err != nil {
			return nil, err
		}
		var complete bool
		if token, complete, err = maker.step(answer.Token); err != nil {
			return nil, err
		}
		if complete {
			return maker.keys()
		}
	}
	return nil, &wire.Failure{Words: "the server wants too many tokens"}
}

// receive reads a message of one type.
func receive[M wire.Message](in io.Reader) (M, error) {
	var none M
	m, err := wire.Read(in)
	if err != nil {
		return none, err
	}
	if m, ok := m.(M); ok {
		return m, nil
	}
	return none, fmt.Errorf("a %T came, and not a %T", m, none)
}
