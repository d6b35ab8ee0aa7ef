package budget

import (
	"testing"
	"time"
)

func in(t *testing.T, zone string) *time.Location {
	t.Helper()
	loc, err := time.LoadLocation(zone)
	if err != nil {
		t.Fatal(err)
	}
	return loc
}

func TestPeriodsBeginAndEndWhereTheirCalendarSays(t *testing.T) {
	for _, c := range []struct {
		what       string
		zone       string
		period     Period
		reset      int
		at         string // UTC
		start, end string // UTC
	}{
		{"a day in UTC", "UTC", Day, 1, "2027-01-15T12:00:00Z", "2027-01-15T00:00:00Z", "2027-01-16T00:00:00Z"},
		{"its first instant", "UTC", Day, 1, "2027-01-15T00:00:00Z", "2027-01-15T00:00:00Z", "2027-01-16T00:00:00Z"},
		{"its last millisecond", "UTC", Day, 1, "2027-01-15T23:59:59.999Z", "2027-01-15T00:00:00Z", "2027-01-16T00:00:00Z"},
		{"a day far east of UTC", "Pacific/Kiritimati", Day, 1, "2027-01-15T12:00:00Z", "2027-01-15T10:00:00Z", "2027-01-16T10:00:00Z"},
		{"a day with half an hour", "Asia/Kolkata", Day, 1, "2027-01-15T18:29:59Z", "2027-01-14T18:30:00Z", "2027-01-15T18:30:00Z"},
		{"a day of 23 hours", "Europe/Athens", Day, 1, "2027-03-28T12:00:00Z", "2027-03-27T22:00:00Z", "2027-03-28T21:00:00Z"},
		{"a day of 25 hours", "Europe/Athens", Day, 1, "2027-10-31T12:00:00Z", "2027-10-30T21:00:00Z", "2027-10-31T22:00:00Z"},
		{"a day whose midnight is skipped", "America/Sao_Paulo", Day, 1, "2017-10-15T12:00:00Z", "2017-10-15T03:00:00Z", "2017-10-16T02:00:00Z"},
		{"the day before it", "America/Sao_Paulo", Day, 1, "2017-10-15T02:59:59Z", "2017-10-14T03:00:00Z", "2017-10-15T03:00:00Z"},
		{"a day whose last hour comes twice", "America/Sao_Paulo", Day, 1, "2018-02-18T02:30:00Z", "2018-02-17T02:00:00Z", "2018-02-18T03:00:00Z"},
		{"a day whose midnight comes twice", "America/Havana", Day, 1, "2026-11-01T12:00:00Z", "2026-11-01T04:00:00Z", "2026-11-02T05:00:00Z"},
		{"the day before it", "America/Havana", Day, 1, "2026-11-01T03:59:00Z", "2026-10-31T04:00:00Z", "2026-11-01T04:00:00Z"},
		{"a midnight skipped in Cairo", "Africa/Cairo", Day, 1, "2026-04-24T12:00:00Z", "2026-04-23T22:00:00Z", "2026-04-24T21:00:00Z"},
		{"the day before one that never was", "Pacific/Apia", Day, 1, "2011-12-30T09:00:00Z", "2011-12-29T10:00:00Z", "2011-12-30T10:00:00Z"},
		{"the day after one that never was", "Pacific/Apia", Day, 1, "2011-12-30T10:00:00Z", "2011-12-30T10:00:00Z", "2011-12-31T10:00:00Z"},

		{"a week from Monday", "UTC", Week, 1, "2027-01-17T23:00:00Z", "2027-01-11T00:00:00Z", "2027-01-18T00:00:00Z"},
		{"a week from Sunday", "UTC", Week, 7, "2027-01-17T23:00:00Z", "2027-01-17T00:00:00Z", "2027-01-24T00:00:00Z"},
		{"a week from Wednesday", "UTC", Week, 3, "2027-01-12T23:00:00Z", "2027-01-06T00:00:00Z", "2027-01-13T00:00:00Z"},
		{"a week over the year's end", "UTC", Week, 1, "2027-01-02T00:00:00Z", "2026-12-28T00:00:00Z", "2027-01-04T00:00:00Z"},
		{"a week of 169 hours", "Europe/Athens", Week, 1, "2027-10-27T00:00:00Z", "2027-10-24T21:00:00Z", "2027-10-31T22:00:00Z"},

		{"a month", "UTC", Month, 1, "2027-02-28T23:59:59Z", "2027-02-01T00:00:00Z", "2027-03-01T00:00:00Z"},
		{"a month without a reset day", "UTC", Month, 0, "2027-02-28T23:59:59Z", "2027-02-01T00:00:00Z", "2027-03-01T00:00:00Z"},
		{"a leap February", "UTC", Month, 1, "2028-02-29T12:00:00Z", "2028-02-01T00:00:00Z", "2028-03-01T00:00:00Z"},
		{"a month from the 15th, before it", "UTC", Month, 15, "2027-03-14T23:59:59Z", "2027-02-15T00:00:00Z", "2027-03-15T00:00:00Z"},
		{"a month from the 15th, on it", "UTC", Month, 15, "2027-03-15T00:00:00Z", "2027-03-15T00:00:00Z", "2027-04-15T00:00:00Z"},
		{"a month from the 31st ends with a short one", "UTC", Month, 31, "2027-02-27T00:00:00Z", "2027-01-31T00:00:00Z", "2027-02-28T00:00:00Z"},
		{"and the next begins on its last day", "UTC", Month, 31, "2027-02-28T00:00:00Z", "2027-02-28T00:00:00Z", "2027-03-31T00:00:00Z"},
		{"and goes over one of 30 days", "UTC", Month, 31, "2027-04-29T00:00:00Z", "2027-03-31T00:00:00Z", "2027-04-30T00:00:00Z"},
		{"a month over the year's end", "UTC", Month, 20, "2027-01-05T00:00:00Z", "2026-12-20T00:00:00Z", "2027-01-20T00:00:00Z"},
		{"a month in a zone that changes its clocks", "America/New_York", Month, 1, "2027-03-20T00:00:00Z", "2027-03-01T05:00:00Z", "2027-04-01T04:00:00Z"},
	} {
		l := &Limit{Algorithm: CalendarUsage, Period: c.period, ResetDay: c.reset, Location: in(t, c.zone)}
		at, err := time.Parse(time.RFC3339, c.at)
		if err != nil {
			t.Fatal(err)
		}
		start, end := PeriodAt(l, at)
		if s, e := start.UTC().Format(time.RFC3339), end.UTC().Format(time.RFC3339); s != c.start || e != c.end {
			t.Errorf("%s: got %s to %s, want %s to %s", c.what, s, e, c.start, c.end)
		}
	}
}

// Periods follow each other without a gap, in every zone and through every change.
func TestPeriodsTileTime(t *testing.T) {
	for _, zone := range []string{"UTC", "Europe/Athens", "America/Sao_Paulo", "America/Havana", "Africa/Cairo", "Pacific/Apia", "Australia/Lord_Howe", "America/Asuncion", "Asia/Beirut"} {
		for _, l := range []*Limit{
			{Period: Day}, {Period: Week, ResetDay: 5}, {Period: Month, ResetDay: 31},
		} {
			l.Algorithm, l.Location = CalendarUsage, in(t, zone)
			at := time.Date(2010, 1, 1, 0, 0, 0, 0, time.UTC)
			_, at = PeriodAt(l, at)
			for at.Year() < 2027 {
				start, end := PeriodAt(l, at)
				before, until := PeriodAt(l, at.Add(-time.Millisecond))
				if !start.Equal(at) || !until.Equal(at) || !before.Before(at) || !end.After(at) {
					t.Fatalf("%s, %s: at %v: the period is %v to %v, the one before %v to %v", zone, l.Period, at, start, end, before, until)
				}
				at = end
			}
		}
	}
}

func TestBoundsFarAwayAreOfTheKnownLength(t *testing.T) {
	b := Bounds{100, 110, 125}
	for _, c := range []struct {
		now  int64
		want Bounds
	}{
		{100, b},
		{109, b},
		{110, Bounds{110, 125, 140}},
		{124, Bounds{110, 125, 140}},
		{125, Bounds{125, 140, 155}},
		{170, Bounds{170, 185, 200}},
		{99, Bounds{90, 100, 110}},
		{80, Bounds{80, 90, 100}},
		{79, Bounds{70, 80, 90}},
	} {
		if got := b.at(c.now); got != c.want {
			t.Errorf("at %d: got %+v, want %+v", c.now, got, c.want)
		}
	}
}
