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

// A remote is an object on a server, named by a URL.
type remote struct {
	location
	*session
	fs   *nfsclient.FS // the export that contains it
	rest string        // path within the export, "" for its root
}

// openURL connects to the server in a URL and finds the export. If the connection fails,
// the result has no session.
func (a *app) openURL(ctx context.Context, l location) (remote, error) {
	within, cancel := context.WithTimeoutCause(ctx, a.timeout, errTimeout)
	defer cancel()
	cfg := a.commandConfig()
	cfg.Export = l.path
	s, err := a.openSessionWith(within, l.server, cfg)
	if err != nil {
		return remote{}, err
	}
	export, rest, err := s.openExport(within, l.path)
	if l.dir && rest != "" {
		rest += "/"
	}
	return remote{location: l, session: s, fs: export, rest: rest}, err
}

// childOf returns the object with the given name in the directory r.
func (r remote) childOf(name string) remote {
	r.path = strings.TrimSuffix(r.path, "/") + "/" + name
	r.rest = strings.TrimPrefix(strings.TrimSuffix(r.rest, "/")+"/"+name, "/")
	r.dir = false
	return r
}

// forEachURL calls do for each URL. It prints an error and continues with the next URL,
// unless the connection is lost.
func (a *app) forEachURL(ctx context.Context, urls []location, do func(remote) error) error {
	return a.forEachLocation(ctx, urls, func(r remote, err error) error {
		if err != nil {
			return err
		}
		return do(r)
	})
}

// forEachLocation calls do for each URL, also for those that are in no export: then with
// an error and a remote without fs.
func (a *app) forEachLocation(ctx context.Context, urls []location, do func(remote, error) error) error {
	failed := false
	for _, l := range urls {
		r, err := a.openURL(ctx, l)
		if r.session == nil {
			return err
		}
		if err = do(r, err); err == nil {
			continue
		}
		if lost := fatalError(ctx, err); lost != nil {
			return lost
		}
		if !errors.Is(err, cli.ErrReported) {
			a.printError(err)
		}
		failed = true
	}
	if failed {
		return cli.ErrReported
	}
	return nil
}

// printError prints an error that does not end the command.
func (a *app) printError(err error) { fmt.Fprintf(a.stderr, "mountrdma: %v\n", err) }

// parseURLs returns a function that parses one or more URL arguments.
func (a *app) parseURLs(into *[]location) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return fmt.Errorf("%s needs a URL: nfs://SERVER[:PORT]/EXPORT/PATH or SERVER:/EXPORT/PATH", cmd.Name())
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

// explainError adds the URL to err, and omits the details of lower layers.
func (r remote) explainError(err error) error {
	if err == nil {
		return nil
	}
	// The error names an object below a directory.
	if path, ok := errors.AsType[*fs.PathError](err); ok {
		r.path += strings.TrimPrefix(path.Path, strings.TrimSuffix(r.rest, "/"))
	}
	return &plainError{r.String(), err, r.cred.UID}
}

// A plainError is the error for an object, without the details of lower layers.
type plainError struct {
	name string // the object's name
	err  error
	uid  uint32 // user in the call's credential
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
		words += fmt.Sprintf("; the call was user %d's", e.uid)
		if e.uid == 0 && os.Geteuid() == 0 { // only root can use --uid to bypass permissions
			words += ", and servers may map root to nobody: use --uid and --gid to act as another user"
		}
	}
	return words
}

// Unwrap returns the cause.
func (e *plainError) Unwrap() error { return e.err }
