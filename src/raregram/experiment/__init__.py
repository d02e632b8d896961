"""The paper's experiment, from a corpus to a report: run -> tables and figures -> page. Extra `report`."""
