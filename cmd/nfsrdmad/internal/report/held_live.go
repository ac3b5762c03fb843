package report

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"
)

// maxLiveHeld bounds the files that the live page lists, and liveHeldTime the time for their paths.
const (
	maxLiveHeld  = 50
	liveHeldTime = 500 * time.Millisecond
)

// A liveHeldView is the live page's list of files that clients hold.
type liveHeldView struct {
	Rows []liveHeldRow
	More int // files

	// Without rows: Source.ShowsFiles is not set.
	Files, WaitedFiles int
}

// A liveHeldRow is what a client holds of a file.
type liveHeldRow struct {
	Client, Address, File, What string
	Waits                       bool
}

// collectLiveHeld lists some files by client, for the live page: those for which clients wait first.
// Unless src.ShowsFiles, it only counts files.
func (src *Source) collectLiveHeld() *liveHeldView {
	if src.ClientState == nil {
		return new(liveHeldView)
	}
	if !src.ShowsFiles {
		p := src.ClientState.SampleHeldFiles(context.Background(), 0)
		return &liveHeldView{Files: p.Rest, WaitedFiles: p.Waited}
	}
	ctx, cancel := context.WithTimeout(context.Background(), liveHeldTime)
	defer cancel()
	page := src.ClientState.SampleHeldFiles(ctx, maxLiveHeld)
	v := &liveHeldView{More: page.Rest}
	for i := range page.Files {
		f := newHeldFileDoc(&page.Files[i])
		v.addFile(&f)
	}
	slices.SortStableFunc(v.Rows, compareLiveRows)
	return v
}

// compareLiveRows orders rows by client, those first that wait.
func compareLiveRows(a, b liveHeldRow) int {
	switch {
	case a.Waits && !b.Waits:
		return -1
	case b.Waits && !a.Waits:
		return 1
	}
	return cmp.Or(cmp.Compare(a.Client, b.Client), cmp.Compare(a.Address, b.Address), cmp.Compare(a.File, b.File))
}

// maxLiveParts bounds what a row says.
const maxLiveParts = 8

// addFile adds a row for each holder of a file.
func (v *liveHeldView) addFile(f *heldFileDoc) {
	parts := make(map[holderDoc][]string)
	var order []holderDoc
	waits := make(map[holderDoc]bool)
	for _, r := range f.rows() {
		by := r.holderDoc
		if parts[by] == nil {
			order = append(order, by)
		}
		waits[by] = waits[by] || strings.HasPrefix(r.What, "waits")
		switch n := len(parts[by]); {
		case n < maxLiveParts:
			parts[by] = append(parts[by], r.What+" "+r.Details)
		case n == maxLiveParts:
			parts[by] = append(parts[by], "and more")
		}
	}
	for _, by := range order {
		v.Rows = append(v.Rows, liveHeldRow{truncateName(by.Owner), by.Address, f.describe(), strings.Join(parts[by], "; "), waits[by]})
	}
}
