package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/nfsrdma/nfsrdma/internal/cli"
	"github.com/nfsrdma/nfsrdma/nfsclient"
)

// A remote is an object on a server that a URL names.
type remote struct {
	location
	*session
	fs   *nfsclient.FS // its export
	rest string        // the path from there, "" for its root
}

// open connects to the server of a URL and finds the export. If the connection
// fails, the result has no session.
func (a *app) open(ctx context.Context, l location) (remote, error) {
	within, cancel := context.WithTimeoutCause(ctx, a.timeout, errTimeout)
	defer cancel()
	s, err := a.session(within, l.server)
	if err != nil {
		return remote{}, err
	}
	export, rest, err := s.open(within, l.path)
	if l.dir && rest != "" {
		rest += "/"
	}
	return remote{location: l, session: s, fs: export, rest: rest}, err
}

// child returns the object of the given name in the directory r.
func (r remote) child(name string) remote {
	r.path = strings.TrimSuffix(r.path, "/") + "/" + name
	r.rest = strings.TrimPrefix(strings.TrimSuffix(r.rest, "/")+"/"+name, "/")
	r.dir = false
	return r
}

// each calls do for each URL. It reports the error of one URL and continues
// with the others, unless the connection is lost.
func (a *app) each(ctx context.Context, urls []location, do func(remote) error) error {
	failed := false
	for _, l := range urls {
		r, err := a.open(ctx, l)
		if r.session == nil {
			return err
		}
		if err == nil {
			err = do(r)
		}
		if err == nil {
			continue
		}
		if lost := lost(ctx, err); lost != nil {
			return lost
		}
		a.report(err)
		failed = true
	}
	if failed {
		return cli.ErrReported
	}
	return nil
}

// report prints an error while the command continues.
func (a *app) report(err error) { fmt.Fprintf(a.stderr, "mountrdma: %v\n", err) }

// urls returns the check of arguments that are URLs, at least one.
func (a *app) urls(into *[]location) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return fmt.Errorf("%s needs a URL: nfs://SERVER[:PORT]/EXPORT/PATH", cmd.Name())
		}
		for _, arg := range args {
			l, err := parseURL(arg, a.overTCP())
			if err != nil {
				return err
			}
			*into = append(*into, l)
		}
		return a.checkFlags()
	}
}

// explain wraps err with the URL, in plain words.
func (r remote) explain(err error) error {
	if err == nil {
		return nil
	}
	// The error names the object below a directory.
	if path, ok := errors.AsType[*fs.PathError](err); ok {
		r.path += strings.TrimPrefix(path.Path, strings.TrimSuffix(r.rest, "/"))
	}
	return &plainError{r.String(), err, r.cred.UID}
}

// A plainError is an error of an object in plain words.
type plainError struct {
	name string // the object's
	err  error
	uid  uint32 // user of the call
}

// Error returns the reason without the operations and paths of lower layers.
func (e *plainError) Error() string {
	err := cli.Cause(e.err)
	if link, ok := errors.AsType[*os.LinkError](err); ok {
		err = link.Err
	}
	refused, ok := errors.AsType[*nfsclient.Error](err)
	if !ok {
		return fmt.Sprintf("%s: %v", e.name, err)
	}
	words := fmt.Sprintf("%s: %v (%v)", e.name, refused.Errno(), refused.Status)
	if errors.Is(err, fs.ErrPermission) {
		words += fmt.Sprintf("; the call was user %d's, and servers may map root to nobody: --uid and --gid act as others", e.uid)
	}
	return words
}

// Unwrap returns the cause.
func (e *plainError) Unwrap() error { return e.err }
