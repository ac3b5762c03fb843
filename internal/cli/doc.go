// Package cli is what the commands have in common: how a program runs and ends,
// values of flags, and the version.
//
//	main ─▶ Run ─▶ cobra ─▶ the command ─▶ error ─▶ one line, exit status 1
//	                 └─ not understood ─▶ error ─▶ one line, exit status 2
//
// It must not know what a command does.
package cli
