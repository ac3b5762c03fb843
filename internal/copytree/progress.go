package copytree

import (
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/schollz/progressbar/v3"
)

// A progress is a bar that shows how far a copy has come. It shows nothing if it
// has no terminal.
type progress struct {
	mu          sync.Mutex
	bar         *progressbar.ProgressBar // nil: show nothing
	files, done int
}

func newProgress(w io.Writer) *progress {
	if w == nil {
		return new(progress)
	}
	// The bar's length grows with the files found. One extra byte keeps the bar
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

// redraw is the shortest time between two changes of a bar.
const redraw = 100 * time.Millisecond

// found adds a file to copy.
func (p *progress) found(size int64) {
	if p.bar == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.files++
	p.describe()
	p.bar.AddMax64(size)
}

// fileDone counts a copied file.
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

// add counts copied bytes.
func (p *progress) add(size int64) {
	if p.bar == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	_ = p.bar.Add64(size) // an error of the terminal is no error of the copy
}

// aside calls write with the bar removed meanwhile.
func (p *progress) aside(write func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.bar != nil {
		_ = p.bar.Clear()
	}
	write()
}

// close removes the bar.
func (p *progress) close() {
	if p.bar != nil {
		_ = p.bar.Clear()
	}
}

// A countingReader advances the bar and records a failure of its Reader.
type countingReader struct {
	r   io.Reader
	bar *progress
	err error
}

// Read implements io.Reader.
func (r *countingReader) Read(p []byte) (int, error) {
	n, err := r.r.Read(p)
	r.bar.add(int64(n))
	if err != nil && err != io.EOF {
		r.err = err
	}
	return n, err
}

func (r *countingReader) failed() bool { return r.err != nil }

// A countingWriter advances the bar and records a failure of its Writer.
type countingWriter struct {
	w   io.Writer
	bar *progress
	err error
}

// Write implements io.Writer.
func (w *countingWriter) Write(p []byte) (int, error) {
	n, err := w.w.Write(p)
	w.bar.add(int64(n))
	if err != nil {
		w.err = err
	}
	return n, err
}

func (w *countingWriter) failed() bool { return w.err != nil }
