package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/internal/buildinfo"
	"github.com/nfsrdma/nfsrdma/oncrpc/gss/tickets/wire"
)

// Both the library's last error and some of the kernel's keyrings belong to a thread.
func init() { runtime.LockOSThread() }

// version is set by the linker (see Makefile).
var version string

func main() {
	if len(os.Args) == 2 && os.Args[1] == "--version" {
		fmt.Println(buildinfo.Line("nfsrdma-gss", version))
		return
	}
	name := [...]byte{'n', 'f', 's', 'r', 'd', 'm', 'a', '-', 'g', 's', 's', 0}
	_ = unix.Prctl(unix.PR_SET_NAME, uintptr(unsafe.Pointer(&name)), 0, 0, 0) // mountrdma executes a descriptor, which has no name
	if err := forbidDumps(); err != nil {
		fmt.Fprintln(os.Stderr, "nfsrdma-gss: core dumps cannot be disabled:", err)
		os.Exit(1)
	}
	if err := serveRequest(os.Stdin, os.Stdout, beginContext); err != nil {
		fmt.Fprintln(os.Stderr, "nfsrdma-gss:", err)
		os.Exit(1)
	}
}

// forbidDumps disables core dumps, which would contain keys, and prevents other
// processes of the user from tracing this one.
func forbidDumps() error {
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return err
	}
	return unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{})
}

// An initiator is the initiator's side of a context that is being established.
type initiator interface {
	// nextToken takes the acceptor's token and returns the next one, which is empty if
	// none is needed. Errors are of type *wire.Failure.
	nextToken(answer []byte) (token []byte, complete bool, err error)

	// exportKeys returns the keys of the complete context. Errors are of type
	// *wire.Failure.
	exportKeys() (*wire.Keys, error)
}

// maxRounds is the number of tokens that an acceptor may send. Kerberos needs one.
const maxRounds = 4

// serveRequest serves one request. It returns the errors that cannot be reported to
// the mount.
func serveRequest(in io.Reader, out io.Writer, begin func(*wire.Request) (initiator, []byte, error)) error {
	keys, err := exchangeTokens(in, out, begin)
	if failure, ok := errors.AsType[*wire.Failure](err); ok {
		return wire.Write(out, failure)
	}
	if err != nil {
		return err
	}
	return wire.Write(out, keys)
}

// exchangeTokens relays tokens until the context is complete.
func exchangeTokens(in io.Reader, out io.Writer, begin func(*wire.Request) (initiator, []byte, error)) (*wire.Keys, error) {
	request, err := receiveMessage[*wire.Request](in)
	if errors.Is(err, wire.ErrVersion) {
		return nil, &wire.Failure{Reason: wire.BadVersion, Text: fmt.Sprintf("nfsrdma-gss supports only protocol version %d: install nfsrdma-gss and mountrdma from the same release", wire.Version)}
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
		answer, err := receiveMessage[*wire.Token](in)
		if err != nil {
			return nil, err
		}
		var complete bool
		if token, complete, err = maker.nextToken(answer.Token); err != nil {
			return nil, err
		}
		if complete {
			return maker.exportKeys()
		}
	}
	return nil, &wire.Failure{Text: "the server requests too many tokens"}
}

// receiveMessage reads a message, which must be of type M.
func receiveMessage[M wire.Message](in io.Reader) (M, error) {
	var none M
	m, err := wire.Read(in)
	if err != nil {
		return none, err
	}
	if m, ok := m.(M); ok {
		return m, nil
	}
	return none, fmt.Errorf("received %T instead of %T", m, none)
}
