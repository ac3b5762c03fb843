package main

import (
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/schollz/progressbar/v3"
)

// A progress is a bar that shows how far a copy has come, or nothing at all
// where nobody reads along.
type progress struct {
	mu          sync.Mutex
	bar         *progressbar.ProgressBar // nil: nothing is shown
	files, done int
}

func newProgress(w io.Writer, quiet bool) *progress {
	if quiet || !isTerminal(w) {
		return new(progress)
	}
	// Its length grows with what is found. One octet more than that keeps it
	// from being full before the end.
	return &progress{bar: progressbar.NewOptions64(1,
		progressbar.OptionSetWriter(w),
		progressbar.OptionShowBytes(true),
		progressbar.OptionShowCount(),
		progressbar.OptionShowTotalBytes(true),
		progressbar.OptionUseIECUnits(true),
		progressbar.OptionFullWidth(),
		progressbar.OptionThrottle(redraw),
		progressbar.OptionClearOnFinish(),
	)}
}

// redraw is how often a bar changes at most.
const redraw = 100 * time.Millisecond

// found notes a file that will be copied.
func (p *progress) found(octets int64) {
	if p.bar == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.files++
	p.describe()
	p.bar.AddMax64(octets)
}

// fileDone notes that one is copied.
func (p *progress) fileDone() {
	if p.bar == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.done++
	p.describe()
}

func (p *progress) describe() {
	p.bar.Describe(fmt.Sprintf("%d/%d files", p.done, p.files))
}

// add notes that octets are copied.
func (p *progress) add(octets int64) {
	if p.bar == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	_ = p.bar.Add64(octets) // an error of the terminal is no error of the copy
}

// aside has something else written in place of the bar.
func (p *progress) aside(write func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.bar != nil {
		_ = p.bar.Clear()
	}
	write()
}

// close takes the bar away.
func (p *progress) close() {
	if p.bar != nil {
		_ = p.bar.Clear()
	}
}

// A countingReader moves the bar, and remembers whether it failed.
type countingReader struct {
	r   io.Reader
	bar *progress
	err error
}

// Read reads.
func (r *countingReader) Read(p []byte) (int, error) {
	n, err := r.r.Read(p)
	r.bar.add(int64(n))
	if err != nil && err != io.EOF {
		r.err = err
	}
	return n, err
}

func (r *countingReader) failed() bool { return r.err != nil }

// A countingWriter is the same for a Writer.
type countingWriter struct {
	w   io.Writer
	bar *progress
	err error
}

// Write writes.
func (w *countingWriter) Write(p []byte) (int, error) {
	n, err := w.w.Write(p)
	w.bar.add(int64(n))
	if err != nil {
		w.err = err
	}
	return n, err
}

func (w *countingWriter) failed() bool { return w.err != nil }
