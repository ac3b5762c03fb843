package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"path"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/nfsrdma/nfsrdma/cmd/nfsrdmad/internal/report"
	"github.com/nfsrdma/nfsrdma/internal/cli"
)

// A callFilter selects calls for nfsrdmad trace. The zero value of a field selects all.
type callFilter struct {
	client    netip.Prefix
	export    string
	procedure string // or an operation
	path      string
	errors    bool
	slower    time.Duration
}

// parseCallFilter reads a filter from a request.
func parseCallFilter(q url.Values) (f callFilter, err error) {
	if q.Has("client") {
		if f.client, err = parseClient(q.Get("client")); err != nil {
			return f, err
		}
	}
	if q.Has("procedure") {
		if f.procedure, err = findProcedure(q.Get("procedure")); err != nil {
			return f, err
		}
	}
	if text := q.Get("slower"); q.Has("slower") {
		if f.slower, err = time.ParseDuration(text); err != nil || f.slower < 0 {
			return f, fmt.Errorf("--slower %q: give a time such as 10ms", text)
		}
	}
	if f.export, err = parseAbsolute(q, "export"); err != nil {
		return f, err
	}
	f.path, err = parseAbsolute(q, "path")
	f.errors = q.Get("errors") == "true"
	return f, err
}

// parseAbsolute reads a path, which may be absent.
func parseAbsolute(q url.Values, flag string) (string, error) {
	text := q.Get(flag)
	if q.Has(flag) && !path.IsAbs(text) {
		return "", fmt.Errorf("--%s %q: give an absolute path on the server", flag, text)
	}
	if text == "" {
		return "", nil
	}
	return path.Clean(text), nil
}

// parseClient reads an address or a network.
func parseClient(text string) (netip.Prefix, error) {
	if a, err := netip.ParseAddr(text); err == nil {
		a = a.Unmap()
		return netip.PrefixFrom(a.WithZone(""), a.BitLen()), nil
	}
	p, err := netip.ParsePrefix(text)
	if err != nil || p.Addr().Is4In6() {
		return p, fmt.Errorf("--client %q: give an address, or a network such as 192.0.2.0/24", text)
	}
	return p, nil
}

// findProcedure returns the name of a procedure or an NFSv4 operation, which text has in any case
// of letters.
func findProcedure(text string) (string, error) {
	for _, g := range report.Programs {
		for proc := range g.Procs {
			if name := g.ProcName(proc); strings.EqualFold(name, text) {
				return name, nil
			}
		}
	}
	return "", fmt.Errorf("--procedure %q: no procedure or NFSv4 operation has this name; names are such as READ and LOOKUP", text)
}

func (f *callFilter) matchesClient(a netip.Addr) bool {
	return !f.client.IsValid() || f.client.Contains(a.WithZone(""))
}

// matchesCall checks all except the export and the path, and the export if it is known.
func (f *callFilter) matchesCall(c *report.TracedCall) bool {
	if f.errors && !c.Failed || c.Seconds < f.slower.Seconds() || f.export != "" && c.Export != "" && c.Export != f.export {
		return false
	}
	if f.client.IsValid() {
		a, err := netip.ParseAddr(c.Client)
		if err != nil || !f.matchesClient(a) {
			return false
		}
	}
	if f.procedure == "" || c.Procedure == f.procedure {
		return true
	}
	for _, o := range c.Operations {
		if o.Name == f.procedure {
			return true
		}
	}
	return false
}

// matchesPlace checks the export and the path. A path selects everything below it too.
func (f *callFilter) matchesPlace(c *report.TracedCall) bool {
	if f.export != "" && c.Export != f.export {
		return false
	}
	if f.path == "" || isBelow(c.Path, f.path) {
		return true
	}
	return c.Name != "" && isBelow(path.Join("/", c.Path, c.Name), f.path)
}

// isBelow reports whether a path is dir or lies below it.
func isBelow(p, dir string) bool {
	rest, ok := strings.CutPrefix(p, strings.TrimSuffix(dir, "/"))
	return ok && (rest == "" || rest[0] == '/')
}

func newTraceCommand() *cobra.Command {
	var asJSON, onlyErrors bool
	control, values := defaultControl(), make(map[string]*string)
	cmd := &cobra.Command{
		Use:   "trace [--client ADDR] [--export PATH] [--procedure NAME] [--path PATH] [--errors] [--slower TIME] [--json]",
		Short: "Show the calls of clients as they happen",
		Long: `Show the calls of a running daemon as they happen, one line each: time of arrival,
client, export, procedure, path, the operations of an NFSv4 COMPOUND, file data,
status, and the time until the reply was sent. A path is shown as far as the host
knows one for the call's first file handle; otherwise its file number. Filters select
the calls that match all of them.

Calls never wait for this command. If there are more than it can show, some are
dropped, and a line says how many. It ends with an interrupt, or with the daemon.
Without this command, tracing costs nothing.

--json prints one object per line; /usr/share/doc/nfsrdma/operations.md describes its
fields.`,
		Example: `  nfsrdmad trace --slower 100ms
  nfsrdmad trace --client 192.0.2.7 --procedure WRITE --path /srv/data/logs
  nfsrdmad trace --errors --json | jq -r '[.client, .status, .path] | @tsv'`,
	}
	f := cmd.Flags()
	for _, flag := range [][2]string{
		{"client", "only calls from an `ADDRESS` or a network"},
		{"export", "only calls that use the export with this `PATH`"},
		{"procedure", "only this procedure or NFSv4 operation, by its `NAME` in the standard"},
		{"path", "only calls for this `PATH` on the server, or below it"},
		{"slower", "only calls that took at least this `TIME`, such as 10ms"},
	} {
		values[flag[0]] = f.String(flag[0], "", flag[1])
	}
	f.BoolVar(&onlyErrors, "errors", false, "only calls that failed")
	f.BoolVar(&asJSON, "json", false, "print JSON objects")
	f.StringVar(&control, "control", control, "`PATH` of the daemon's socket")
	query := func() url.Values {
		q := make(url.Values)
		for name, v := range values {
			if f.Changed(name) {
				q.Set(name, *v)
			}
		}
		if onlyErrors {
			q.Set("errors", "true")
		}
		return q
	}
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if _, err := parseCallFilter(query()); err != nil {
			return err
		}
		return cobra.NoArgs(cmd, args)
	}
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return traceCalls(cmd.Context(), control, query(), asJSON, cmd.OutOrStdout())
	}
	return cmd
}

// traceCalls prints the calls that match a filter until ctx is canceled or the daemon ends.
func traceCalls(ctx context.Context, control string, filter url.Values, asJSON bool, w io.Writer) error {
	body, err := requestDaemon(ctx, control, http.MethodGet, "trace?"+filter.Encode())
	switch {
	case err != nil && ctx.Err() != nil:
		return nil
	case err != nil:
		return err
	}
	defer body.Close()
	if asJSON {
		_, err = io.Copy(w, body)
	}
	lines := json.NewDecoder(body)
	for err == nil && !asJSON {
		var c report.TracedCall
		if err = lines.Decode(&c); err == nil {
			err = c.PrintText(w)
		}
	}
	switch {
	case ctx.Err() != nil:
		return nil
	case err == nil, errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return errors.New("the daemon has ended the trace: it exits, or this command was too slow for it")
	default:
		return cli.Cause(err)
	}
}
