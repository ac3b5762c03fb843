package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"github.com/nfsrdma/nfsrdma/cmd/nfsrdmad/internal/report"
	"github.com/nfsrdma/nfsrdma/internal/cli"
)

const (
	// maxLogClients is the number of clients with a level of their own: each is compared with the
	// client of every line that is not logged otherwise.
	maxLogClients = 16

	maxLogTime = 24 * time.Hour
)

// logWords are the log levels.
var logWords = []string{"debug", "info", "warn", "error"}

func newLogCommand() *cobra.Command {
	var d report.LogLevels
	var client string
	var span time.Duration
	cmd := newShowCommand("log", &d, &cobra.Command{
		Use:   "log [LEVEL [--client ADDR] [--for TIME]]",
		Short: "Show or change the log level of a running daemon",
		Long: `Show the log level of a running daemon, or change it to LEVEL: debug, info, warn or error.
With --client, only the lines about one client, or a network of clients, change, and only
to more lines than the others have; the level of the others ends that. With --for, the
change ends after TIME, and otherwise when the daemon exits; then the level is that of
--log-level.`,
		Example: `  nfsrdmad log debug --for 1m
  nfsrdmad log debug --client 192.0.2.7 --for 10m
  nfsrdmad log`,
	})
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) > 1:
			return errors.New("log takes one level: " + strings.Join(logWords, ", "))
		case len(args) == 1 && !slices.Contains(logWords, args[0]):
			return fmt.Errorf("%q is no log level: the levels are %s", args[0], strings.Join(logWords, ", "))
		case len(args) == 0 && (client != "" || cmd.Flags().Changed("for")):
			return errors.New("--client and --for need a level: nfsrdmad log debug --client ADDR --for 1m")
		case cmd.Flags().Changed("for"):
			if err := cli.CheckRange("--for", span, time.Second, maxLogTime); err != nil {
				return err
			}
		}
		if !cmd.Flags().Changed("client") {
			return nil
		}
		_, err := parseNets("--client", []string{client}) // "" would be all clients
		return err
	}
	cmd.ValidArgsFunction = cobra.FixedCompletions(logWords, cobra.ShellCompDirectiveNoFileComp)
	show := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return show(cmd, args)
		}
		control, err := cmd.Flags().GetString("control")
		if err != nil {
			return err
		}
		order := url.Values{"level": args, "client": {client}, "for": {span.String()}}
		return sendOrder(cmd.Context(), control, "log?"+order.Encode(), cmd.OutOrStdout())
	}
	cmd.Flags().StringVar(&client, "client", "", "change the lines about the client, or network, `ADDR`")
	cmd.Flags().DurationVar(&span, "for", 0, "end the change after `TIME`, such as 1m")
	return cmd
}

// A logControl holds the levels of a daemon's log, which can change.
type logControl struct {
	base   slog.Level // of --log-level
	all    atomic.Int64
	lowest atomic.Int64 // of all and of each client

	mu      sync.Mutex
	until   time.Time // when all is base again; zero: never
	clients map[netip.Prefix]clientLevel
	timer   *time.Timer // calls expire
	list    atomic.Pointer[map[netip.Prefix]clientLevel]
}

type clientLevel struct {
	level slog.Level
	until time.Time // zero: no end
}

func newLogControl(base slog.Level) *logControl {
	c := &logControl{base: base, clients: make(map[netip.Prefix]clientLevel)}
	c.all.Store(int64(base))
	c.publishLocked()
	return c
}

// setLevel sets the level of all lines, or of those about a client if it is valid, until a time, or
// without an end if that is zero.
func (c *logControl) setLevel(client netip.Prefix, level slog.Level, until time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, known := c.clients[client]
	switch {
	case !client.IsValid():
		c.all.Store(int64(level))
		c.until = until
	case level >= slog.Level(c.all.Load()):
		delete(c.clients, client)
	case !known && len(c.clients) == maxLogClients:
		return fmt.Errorf("%d clients have a level of their own, which is the limit: give one of them the level of the others first", maxLogClients)
	default:
		c.clients[client] = clientLevel{level, until}
	}
	c.publishLocked()
	return nil
}

// expire ends the levels whose time is over.
func (c *logControl) expire() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.publishLocked()
}

// publishLocked ends the levels whose time is over, sets a timer for the others, and makes the
// levels known to the handlers.
func (c *logControl) publishLocked() {
	now := time.Now()
	if !c.until.IsZero() && !now.Before(c.until) {
		c.all.Store(int64(c.base))
		c.until = time.Time{}
	}
	maps.DeleteFunc(c.clients, func(_ netip.Prefix, l clientLevel) bool { return !l.until.IsZero() && !now.Before(l.until) })
	lowest, next := c.all.Load(), c.until
	for _, l := range c.clients {
		lowest = min(lowest, int64(l.level))
		if next.IsZero() || !l.until.IsZero() && l.until.Before(next) {
			next = l.until
		}
	}
	list := maps.Clone(c.clients)
	c.list.Store(&list)
	c.lowest.Store(lowest)
	if c.timer != nil {
		c.timer.Stop()
	}
	if !next.IsZero() {
		c.timer = time.AfterFunc(next.Sub(now), c.expire)
	}
}

// allowsClient reports whether a line about a client is logged.
func (c *logControl) allowsClient(a netip.Addr, level slog.Level) bool {
	for p, l := range *c.list.Load() {
		if level >= l.level && p.Contains(a.Unmap().WithZone("")) {
			return true
		}
	}
	return false
}

// describeLevels returns the levels as a document.
func (c *logControl) describeLevels() *report.LogLevels {
	c.mu.Lock()
	defer c.mu.Unlock()
	d := &report.LogLevels{
		Version: report.SchemaVersion, Level: levelWord(slog.Level(c.all.Load())), Default: levelWord(c.base),
		Until: timeOrNil(c.until), Clients: []report.ClientLogLevel{},
	}
	for _, p := range slices.SortedFunc(maps.Keys(c.clients), netip.Prefix.Compare) {
		l := c.clients[p]
		d.Clients = append(d.Clients, report.ClientLogLevel{Client: p.String(), Level: levelWord(l.level), Until: timeOrNil(l.until)})
	}
	return d
}

func timeOrNil(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

func levelWord(l slog.Level) string { return strings.ToLower(l.String()) }

// handleLevel handles nfsrdmad log LEVEL.
func (c *logControl) handleLevel(r *http.Request) (string, error) {
	word := r.FormValue("level")
	var level slog.Level
	if !slices.Contains(logWords, word) {
		return "", fmt.Errorf("%q is no log level: the levels are %s", word, strings.Join(logWords, ", "))
	}
	if err := level.UnmarshalText([]byte(word)); err != nil {
		return "", err
	}
	var client netip.Prefix
	if word := r.FormValue("client"); word != "" {
		nets, err := parseNets("--client", []string{word})
		if err != nil {
			return "", err
		}
		client = nets[0]
	}
	span, err := time.ParseDuration(r.FormValue("for"))
	if err != nil || span < 0 || span > maxLogTime {
		return "", fmt.Errorf("--for %s is not a time of at most %v", r.FormValue("for"), maxLogTime)
	}
	var until time.Time
	if span > 0 {
		until = time.Now().Add(span)
	}
	if err := c.setLevel(client, level, until); err != nil {
		return "", err
	}
	what := "the log level is " + word
	if all := slog.Level(c.all.Load()); client.IsValid() && level >= all {
		return fmt.Sprintf("the log level for %s is that of the others, %s", client, levelWord(all)), nil
	}
	if client.IsValid() {
		what = fmt.Sprintf("the log level for %s is %s", client, word)
	}
	if span > 0 {
		what += fmt.Sprintf(" for %v", span)
	}
	return what, nil
}

// A leveledHandler passes the records to next that a logControl allows.
type leveledHandler struct {
	control *logControl
	next    slog.Handler
	client  netip.Addr // of an attribute of the Logger
}

// Enabled implements slog.Handler.
func (h *leveledHandler) Enabled(_ context.Context, l slog.Level) bool {
	return int64(l) >= h.control.lowest.Load()
}

// Handle implements slog.Handler.
func (h *leveledHandler) Handle(ctx context.Context, r slog.Record) error {
	if int64(r.Level) < h.control.all.Load() {
		client := h.client
		r.Attrs(func(a slog.Attr) bool {
			if found := findClient(a); found.IsValid() {
				client = found
			}
			return true
		})
		if !h.control.allowsClient(client, r.Level) {
			return nil
		}
	}
	return h.next.Handle(ctx, r)
}

// WithAttrs implements slog.Handler.
func (h *leveledHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	next := &leveledHandler{h.control, h.next.WithAttrs(attrs), h.client}
	for _, a := range attrs {
		if found := findClient(a); found.IsValid() {
			next.client = found
		}
	}
	return next
}

// WithGroup implements slog.Handler.
func (h *leveledHandler) WithGroup(name string) slog.Handler {
	return &leveledHandler{h.control, h.next.WithGroup(name), h.client}
}

// findClient returns the address in an attribute about a client, or an invalid one.
func findClient(a slog.Attr) netip.Addr {
	if a.Key != "peer" && a.Key != "client" && a.Key != "addr" {
		return netip.Addr{}
	}
	for word := range strings.FieldsSeq(a.Value.Resolve().String()) {
		if at, err := netip.ParseAddrPort(word); err == nil {
			return at.Addr()
		}
		if addr, err := netip.ParseAddr(word); err == nil {
			return addr
		}
	}
	return netip.Addr{}
}
