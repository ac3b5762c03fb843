package probe

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// An event is what the worker tells: output, or its end.
type event struct {
	Out, Err string
	Done     bool
	Failure  string // with Done
	Unusable bool   // with Done
}

// endLimit is the time in which the worker must end: it may have to restore the host.
const endLimit = restoreLimit + 2*closeLimit

// Run runs a probe to its end, in a worker process. A process that waits for a file
// system cannot always be killed. This one does not touch the file system, so that it
// ends whatever the worker waits for.
func Run(ctx context.Context, o *Options) error {
	options, err := json.Marshal(o)
	if err != nil {
		return err
	}
	cmd := exec.Command(o.Worker[0], append(o.Worker[1:len(o.Worker):len(o.Worker)], string(options))...)
	cmd.Stdin, cmd.Stderr = o.In, struct{ io.Writer }{o.Err} // the worker's end of a pipe, not the file
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	end, cause, err := os.Pipe()
	if err != nil {
		return err
	}
	defer cause.Close()
	defer end.Close()
	cmd.ExtraFiles = []*os.File{end}
	if err := cmd.Start(); err != nil {
		return err
	}
	events := make(chan event)
	go readEvents(out, events)
	return o.follow(ctx, cmd, events, cause)
}

func readEvents(from io.Reader, events chan<- event) {
	defer close(events)
	d := json.NewDecoder(from)
	for {
		var e event
		if d.Decode(&e) != nil {
			return
		}
		events <- e
	}
}

// follow prints what the worker tells until its end. When the context ends, it sends
// the cause to the worker.
func (o *Options) follow(ctx context.Context, cmd *exec.Cmd, events <-chan event, cause io.WriteCloser) error {
	var limit <-chan time.Time
	for stop := ctx.Done(); ; {
		select {
		case e, ok := <-events:
			switch {
			case !ok:
				return fmt.Errorf("the process of the probe has ended: %w", errors.Join(cmd.Wait(), context.Cause(ctx)))
			case e.Done:
				return e.failure()
			}
			_, _ = io.WriteString(o.Out, e.Out)
			_, _ = io.WriteString(o.Err, e.Err)
		case <-stop:
			stop = nil
			_, _ = io.WriteString(cause, context.Cause(ctx).Error())
			cause.Close()
			limit = time.After(endLimit)
		case <-limit:
			_ = cmd.Process.Kill()
			return context.Cause(ctx)
		}
	}
}

func (e *event) failure() error {
	switch {
	case e.Unusable:
		return ErrUnusable
	case e.Failure != "":
		return errors.New(e.Failure)
	}
	return nil
}

// RunWorker is the worker's process. It ends with the process that has started it,
// which is at the other end of descriptor 3.
func RunWorker(args []string) error {
	if len(args) != 1 {
		return errors.New("this command is a part of nfsrdmad probe")
	}
	var o Options
	if err := json.Unmarshal([]byte(args[0]), &o); err != nil {
		return err
	}
	signal.Ignore(unix.SIGINT, unix.SIGTERM, unix.SIGHUP, unix.SIGPIPE)
	ctx, cancel := context.WithCancelCause(context.Background())
	const end = 3
	unix.CloseOnExec(end)
	go func() {
		cause, _ := io.ReadAll(os.NewFile(end, "end"))
		if len(cause) == 0 {
			cause = []byte("the command was killed")
		}
		cancel(errors.New(string(cause)))
	}()
	events := &eventWriter{e: json.NewEncoder(os.Stdout)}
	o.In, o.Out, o.Err = os.Stdin, outWriter{events}, errWriter{events}
	err := execute(ctx, &o)
	return events.send(event{Done: true, Unusable: errors.Is(err, ErrUnusable), Failure: strings.TrimSpace(describe(err))})
}

type eventWriter struct {
	mu sync.Mutex
	e  *json.Encoder
}

func (w *eventWriter) send(e event) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.e.Encode(e)
}

type outWriter struct{ *eventWriter }

func (w outWriter) Write(b []byte) (int, error) { return len(b), w.send(event{Out: string(b)}) }

type errWriter struct{ *eventWriter }

func (w errWriter) Write(b []byte) (int, error) { return len(b), w.send(event{Err: string(b)}) }
