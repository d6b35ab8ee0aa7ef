package config

import (
	"io/fs"
	"os"
	"time"
)

// File is one state of a file: another content has another File.
type File struct {
	Path string
	// Changed is when the file came to be as it is at its place. A file that is
	// put back keeps the time of its last writing, but not this. Where the system
	// does not tell it, it is the time of the last writing. Zero: there is no file.
	Changed time.Time
	Size    int64
}

// Stat returns the state of the file at path. One that cannot be looked at is
// as one that is not there.
func Stat(path string) File {
	info, err := os.Stat(path)
	if err != nil {
		return File{Path: path}
	}
	return fileOf(path, info)
}

func fileOf(path string, info fs.FileInfo) File {
	return File{Path: path, Changed: changed(info), Size: info.Size()}
}
